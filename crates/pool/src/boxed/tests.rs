//! Properties: none yet.
