//! The codec of all our services: prost's, except that a message that cannot be decoded is the sender's fault.
//!
//! Prost's own codec answers INTERNAL, which tells a client to blame, and to page, the operator of the server.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic::{Code, Status};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use crate::status::{reason, with_reason};

/// `application/grpc+proto`.
#[derive(Clone, Debug)]
pub struct BorderCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BorderCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for BorderCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BorderDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        BorderDecoder(ProstDecoder::default())
    }
}

/// Decodes, and answers INVALID_ARGUMENT where that is not possible.
#[derive(Clone, Debug)]
pub struct BorderDecoder<U>(ProstDecoder<U>);

impl<U: Message + Default> Decoder for BorderDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        self.0.decode(buffer).map_err(|status| malformed(status.message()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

fn malformed(detail: &str) -> Status {
    let message =
        format!("the message is malformed: {detail}; check that both sides use the same version of leeway.v1");
    with_reason(Code::InvalidArgument, reason::MALFORMED_MESSAGE, message, [])
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use prost::bytes::{BufMut, BytesMut};
    use tonic::Streaming;

    use super::*;
    use crate::pb;

    /// Sends `payload` through the decoder as the one message of a request.
    fn receive<U: Message + Default + Send + 'static>(payload: &[u8]) -> Result<Option<U>, Status> {
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(payload.len().try_into().unwrap());
        frame.put_slice(payload);
        let decoder = BorderCodec::<(), U>::default().decoder();
        let body = tonic::body::Body::new(http_body_util::Full::new(frame.freeze()));
        let mut stream = Streaming::new_request(decoder, body, None, None);
        let mut next = pin!(stream.message());
        match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("the whole body is there"),
        }
    }

    #[test]
    fn d_01_a_malformed_message_is_an_invalid_argument() {
        for payload in [&b"\xff"[..], b"\x0a\x7fshort", b"\x08\x01", b"\x0a\x01\xff"] {
            let status = receive::<pb::GetJobRequest>(payload).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{payload:?}: {status}");
            assert_eq!(crate::status::reason_of(&status).as_deref(), Some(reason::MALFORMED_MESSAGE));
        }
    }

    #[test]
    fn d_01_a_sound_message_passes_and_unknown_fields_are_ignored() {
        let expected = pb::GetJobRequest { job_id: "j-7".into() };
        let mut payload = expected.encode_to_vec();
        assert_eq!(receive::<pb::GetJobRequest>(&payload).unwrap(), Some(expected.clone()));
        payload.extend_from_slice(b"\xaa\x06\x03new");
        assert_eq!(receive::<pb::GetJobRequest>(&payload).unwrap(), Some(expected));
    }
}
