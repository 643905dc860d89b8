//! The bound: a service that answers each message with the message, over the same library and on the same runtime.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tonic_prost::prost::Message;

const PATH: &str = "/bench.Echo/Say";

/// Answers messages of one type.
struct Echo<M>(PhantomData<fn() -> M>);

impl<M> Clone for Echo<M> {
    fn clone(&self) -> Self {
        Self(PhantomData)
    }
}

impl<M> NamedService for Echo<M> {
    const NAME: &'static str = "bench.Echo";
}

impl<M: Message + Default + 'static> UnaryService<M> for Echo<M> {
    type Response = M;
    type Future = std::future::Ready<Result<Response<M>, Status>>;

    fn call(&mut self, request: Request<M>) -> Self::Future {
        std::future::ready(Ok(Response::new(request.into_inner())))
    }
}

impl<M: Message + Default + 'static> Service<http::Request<Body>> for Echo<M> {
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<M, M>::default());
            Ok(grpc.unary(Echo::<M>(PhantomData), request).await)
        })
    }
}

/// Serves on a port of its own until the runtime ends.
pub async fn serve<M: Message + Default + 'static>() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("a listener has an address");
    let server = tonic::transport::Server::builder().add_service(Echo::<M>(PhantomData));
    tokio::spawn(server.serve_with_incoming(without_delay(listener)));
    address
}

/// As our own server accepts: small answers are not held back.
fn without_delay(listener: TcpListener) -> impl Stream<Item = std::io::Result<tokio::net::TcpStream>> {
    TcpListenerStream::new(listener).map(|socket| socket.and_then(|socket| socket.set_nodelay(true).map(|()| socket)))
}

pub async fn say<M: Message + Default + 'static>(channel: &Channel, message: M) -> Result<M, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<M, M>::default();
    Ok(client.unary(Request::new(message), PathAndQuery::from_static(PATH), codec).await?.into_inner())
}
