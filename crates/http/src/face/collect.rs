//! A request's body in one piece: [`collect`](crate::exchange::collect) keeps the room for it.

use ::core::future::poll_fn;

use crate::{Error, Request};

/// A body without a length grows by so much at a time: by half of what there is, between these.
const STEP_BYTES_MIN: usize = 16 * 1_024;
const STEP_BYTES_MAX: usize = 256 * 1_024;

impl Request {
    /// The whole body, up to the [configured limit](crate::Config::collect_bytes_max), on the heap of the program.
    ///
    /// ```
    /// use plimsoll_http::{Error, Request, Response};
    ///
    /// async fn length(mut req: Request) -> Result<Response, Error> {
    ///     // At the memory line this is a 503 with Retry-After, before anything of the body was read.
    ///     let body = req.collect().await?;
    ///     Ok(Response::text(format!("{} bytes", body.len())))
    /// }
    /// ```
    ///
    /// Room for it is kept under the memory line, from before anything is read until the exchange is over: all of it
    /// for a body whose length is known. Such a body waits for the room for at most
    /// [`memory_timeout`](crate::Config::memory_timeout). One in chunks grows by steps and waits for none of them.
    ///
    /// Not cancel safe: what was read is lost.
    ///
    /// # Errors
    ///
    /// As [`chunk`](Self::chunk), and [`Error::BodyTooLarge`]; [`Error::OverBudget`] also when there is no room for all
    /// of it. No answer was begun then, and the error becomes one: 503.
    pub async fn collect(&mut self) -> Result<Vec<u8>, Error> {
        let bytes_max = self.handle().config().collect_bytes_max;
        self.collect_up_to(bytes_max).await
    }

    /// The same, up to a limit in bytes.
    ///
    /// Not cancel safe: what was read is lost.
    ///
    /// # Errors
    ///
    /// As [`collect`](Self::collect).
    pub async fn collect_up_to(&mut self, bytes_max: usize) -> Result<Vec<u8>, Error> {
        let bytes_max = bytes_max.min(usize::try_from(self.body_bytes_left()).unwrap_or(usize::MAX));
        let length = self.content_length().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        if length.is_some_and(|length| length > bytes_max) {
            return Err(Error::BodyTooLarge { bytes_max });
        }
        let mut body = Vec::new();
        if let Some(length @ 1..) = length {
            // On the heap: few handlers wait, and the future of each would have room for it.
            Box::pin(self.handle().await_room(length)).await?;
            body.reserve_exact(length);
        }
        while let Some(chunk) = poll_fn(|cx| self.poll_chunk(cx)).await? {
            let needed = body.len() + chunk.len();
            if needed > bytes_max {
                return Err(Error::BodyTooLarge { bytes_max });
            }
            if needed > body.capacity() {
                let step = (body.len() / 2).clamp(STEP_BYTES_MIN, STEP_BYTES_MAX).max(chunk.len());
                let more = step.min(bytes_max - body.len());
                self.handle().grow_room(more)?;
                body.reserve_exact(more);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}
