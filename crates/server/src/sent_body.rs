//! The body of an answer: passed on in parts, and its connection is busy until the client has taken them.
//!
//! hyper takes a part while its buffer has room, which is as large as a part: so it takes the next one only when the
//! system has taken the earlier ones. All parts but the first are of the full length, so that this is true of the last
//! one too, and hyper keeps the body until then.

use crate::connections::{Busy, PART_BYTES_MAX};
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The body of an answer.
pub(crate) struct SentBody {
    body: Body,
    /// Bytes of `body` that were not passed on yet.
    rest: Bytes,
    /// `None` after the end.
    busy: Option<Busy>,
}

impl SentBody {
    /// The body of the answer to the request of `busy`.
    pub(crate) fn new(body: Body, busy: Busy) -> SentBody {
        let has_bytes = !body.is_end_stream();
        if has_bytes {
            busy.sends();
        }
        SentBody { body, rest: Bytes::new(), busy: has_bytes.then_some(busy) }
    }

    /// Takes the next part off the rest.
    fn part(&mut self) -> Bytes {
        if let Some(busy) = &self.busy {
            busy.sends_part();
        }
        let first = self.rest.len() % PART_BYTES_MAX;
        self.rest.split_to(if first == 0 { PART_BYTES_MAX } else { first })
    }
}

impl HttpBody for SentBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => {
                    self.busy = None;
                    return Poll::Ready(end);
                }
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
        Poll::Ready(Some(Ok(Frame::data(self.part()))))
    }

    /// Only after the end was reported: with the last part in hand, hyper would drop a body that has ended.
    fn is_end_stream(&self) -> bool {
        self.busy.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let body = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::Connections;
    use std::sync::Arc;

    /// The body of the answer on a connection of its own.
    fn sent(connections: &Arc<Connections>, body: Body) -> SentBody {
        let mut made = None;
        connections.open(|seat| {
            made = Some(SentBody::new(body, Arc::new(seat).busy()));
            tokio::spawn(async {}).abort_handle()
        });
        made.unwrap()
    }

    #[test]
    fn body_is_passed_on_in_parts_of_which_the_last_is_full() {
        const PART: usize = PART_BYTES_MAX;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let connections = Arc::new(Connections::new(1));
            for (length, want) in [
                (0, vec![]),
                (1, vec![1]),
                (PART - 1, vec![PART - 1]),
                (PART, vec![PART]),
                (PART + 1, vec![1, PART]),
                (3 * PART, vec![PART; 3]),
                (3 * PART - 1, vec![PART - 1, PART, PART]),
            ] {
                let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
                let mut body = sent(&connections, Body::from(bytes.clone()));
                let mut parts = Vec::new();
                let mut whole = Vec::new();
                loop {
                    let left = (length - whole.len()) as u64;
                    assert_eq!(body.size_hint().exact(), Some(left), "{length}");
                    let has_ended = body.is_end_stream();
                    assert_eq!(has_ended, length == 0, "{length}: it is kept until the last part is taken");
                    assert_eq!(connections.count(), usize::from(!has_ended), "{length}: it is busy");
                    let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
                    let Some(frame) = frame else { break };
                    let part = frame.unwrap().into_data().unwrap();
                    parts.push(part.len());
                    whole.extend_from_slice(&part);
                }
                assert_eq!((parts, whole == bytes), (want, true), "{length}");
                assert_eq!(connections.count(), 0, "{length}: its seat is free");
            }
        });
    }
}
