//! The connection to the server: how it is made, which requests are tried again, and what is said when nobody answers.

use std::future::Future;
use std::time::Duration;

use leeway_proto::pb::budget_service_client::BudgetServiceClient;
use leeway_proto::pb::cluster_service_client::ClusterServiceClient;
use leeway_proto::pb::dataset_service_client::DatasetServiceClient;
use leeway_proto::pb::job_service_client::JobServiceClient;
use leeway_proto::pb::offer_service_client::OfferServiceClient;
use leeway_proto::pb::upload_service_client::UploadServiceClient;
use leeway_proto::pb::webhook_service_client::WebhookServiceClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

use crate::failure::{Exit, Failure};

/// Where the server listens unless said otherwise.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:7070";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For one answer, not for streams.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Pauses between tries of a request that nobody answered.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(300), Duration::from_millis(900), Duration::from_millis(2_700)];
/// An evaluation of many offers is long.
const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// A server. Cheap to clone; connects with the first request.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    url: String,
}

macro_rules! services {
    ($($(#[$doc:meta])* $name:ident -> $client:ident;)*) => {
        $(
            $(#[$doc])*
            pub fn $name(&self) -> $client<Channel> {
                $client::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
            }
        )*
    };
}

impl Client {
    /// Prepares a connection to `url`.
    ///
    /// # Errors
    /// When it is no URL that this program can speak to.
    pub fn new(url: &str) -> Result<Self, Failure> {
        let refused = |why: &str| {
            Failure::usage(format!("'{}' is not a server: {why}", url.escape_debug()))
                .advise(format!("give --server or LEEWAY_SERVER such as {DEFAULT_SERVER}"))
        };
        if url.starts_with("https://") {
            return Err(refused("TLS is not spoken yet; use http:// on this host or through a tunnel"));
        }
        if !url.starts_with("http://") {
            return Err(refused("it must begin with http://"));
        }
        let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| refused(&error.to_string()))?;
        let channel = endpoint.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true).connect_lazy();
        Ok(Self { channel, url: url.to_owned() })
    }

    services! {
        /// Jobs.
        jobs -> JobServiceClient;
        /// Clusters.
        clusters -> ClusterServiceClient;
        /// Offers.
        offers -> OfferServiceClient;
        /// Budgets and the ledger.
        budgets -> BudgetServiceClient;
        /// Webhook endpoints.
        webhooks -> WebhookServiceClient;
        /// Datasets.
        datasets -> DatasetServiceClient;
        /// Uploads.
        uploads -> UploadServiceClient;
    }

    /// A request that may be sent twice without harm, tried again while nobody answers.
    pub async fn ask<T, F>(&self, request: impl Fn() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut pauses = PAUSES.iter();
        loop {
            match limited(request()).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) if is_cut(&status) => match pauses.next() {
                    Some(pause) => tokio::time::sleep(*pause).await,
                    None => return Err(self.failure(status)),
                },
                Err(status) => return Err(self.failure(status)),
            }
        }
    }

    /// A request that is sent once.
    pub async fn ask_once<T>(&self, request: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Failure> {
        limited(request).await.map(Response::into_inner).map_err(|status| self.failure(status))
    }

    /// A refusal with what to do when it is that nobody answered.
    pub fn failure(&self, status: Status) -> Failure {
        if !is_cut(&status) {
            return status.into();
        }
        let cause = cause(&status);
        let message = if status.code() == Code::Unavailable {
            format!("no server answers at {}: {cause}", self.url)
        } else {
            format!("the server at {} went away before it answered, so what was asked may be done: {cause}", self.url)
        };
        Failure::new(Exit::Unreachable, "UNAVAILABLE", message).advise(
            "start one with 'leeway serve --config leeway.toml', or name another with --server or LEEWAY_SERVER",
        )
    }
}

async fn limited<T>(request: impl Future<Output = Result<Response<T>, Status>>) -> Result<Response<T>, Status> {
    match tokio::time::timeout(ANSWER_TIMEOUT, request).await {
        Ok(result) => result,
        Err(_) => Err(Status::deadline_exceeded(format!(
            "no answer within {} s; the request may have been carried out all the same",
            ANSWER_TIMEOUT.as_secs()
        ))),
    }
}

/// Whether no server answered: it is not there, or went away in the midst of the request. What a server says has no cause
/// of this side.
fn is_cut(status: &Status) -> bool {
    let is_ours = std::error::Error::source(status).is_some();
    status.code() == Code::Unavailable || (is_ours && matches!(status.code(), Code::Unknown | Code::Cancelled))
}

/// The innermost cause, since `transport error` says nothing.
fn cause(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        text = error.to_string();
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_that_cannot_be_spoken_to_is_refused_with_what_to_write() {
        for url in ["", "127.0.0.1:7070", "https://host:7070", "http://", "http://a b", "ftp://x", "http://\u{1b}[31m"]
        {
            let failure = Client::new(url).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{url:?}");
            assert!(failure.advice.unwrap().contains(DEFAULT_SERVER), "{url:?}");
        }
        assert!(Client::new(DEFAULT_SERVER).is_ok());
    }

    #[tokio::test]
    async fn a_server_that_went_away_is_told_apart_from_one_that_refused() {
        let client = Client::new(DEFAULT_SERVER).unwrap();
        let broken = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by peer");
        let mut gone = Status::unknown("transport error");
        gone.set_source(std::sync::Arc::new(broken));
        let failure = client.failure(gone);
        assert!(failure.is_unreachable() && failure.message.contains("went away before it answered"), "{failure:?}");
        assert!(failure.message.contains(DEFAULT_SERVER) && failure.message.ends_with("connection reset by peer"));
        assert!(!client.failure(Status::unknown("a mistake of the server")).is_unreachable());
    }
}
