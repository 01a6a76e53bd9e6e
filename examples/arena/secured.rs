//! The certificate for HTTPS is read again when SIGHUP comes, as who renews certificates asks for.

use plimsoll::http::tls::TlsConfig;
use plimsoll::signal::Hangups;

/// Never ends.
pub(crate) async fn follow(config: TlsConfig, mut hangups: Hangups) {
    loop {
        hangups.next().await;
        let again = config.clone();
        match plimsoll::spawn_blocking(move || again.reload()).await {
            Ok(Ok(())) => tracing::info!("the certificate was read again"),
            Ok(Err(error)) => tracing::warn!(%error, "the certificate stays as it was"),
            Err(error) => tracing::warn!(%error, "the certificate was not read again"),
        }
    }
}
