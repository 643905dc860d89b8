//! Certificates. The fixtures are a test authority and a certificate of it for `hooks.test`; their key protects nothing.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use leeway_model::notify::DeliveryOutcome;
use leeway_webhook::{Deliverer, Settings, tls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{Scripted, attempt, detail, event, settings};

const CA: &[u8] = include_bytes!("../fixtures/test_ca.pem");
const CERTIFICATE: &[u8] = include_bytes!("../fixtures/hooks_test.pem");
const KEY: &[u8] = include_bytes!("../fixtures/hooks_test.key.pem");

/// Serves one connection over TLS and keeps what it could read: decrypted requests, or nothing.
struct Server {
    port: u16,
    read: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

fn serve() -> Server {
    tls::install_crypto_provider();
    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let read = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&read);
    let thread = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), socket);
        let mut request = [0; 8_192];
        // A client that does not trust us ends the handshake here.
        if let Ok(size) = stream.read(&mut request) {
            kept.lock().unwrap().extend_from_slice(&request[..size]);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").and_then(|()| stream.flush());
        }
    });
    Server { port, read, thread }
}

impl Server {
    fn finish(self) -> String {
        self.thread.join().unwrap();
        String::from_utf8(self.read.lock().unwrap().clone()).unwrap()
    }
}

fn deliverer(extra_roots: Vec<CertificateDer<'static>>) -> Deliverer {
    let names = Scripted::new(&[&["127.0.0.1"]]);
    Deliverer::with_resolver(Settings { extra_roots, ..settings() }, names).unwrap()
}

fn ca() -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(CA).unwrap().into_owned()
}

#[tokio::test]
async fn an_authority_that_the_operator_trusts_is_trusted() {
    let server = serve();
    let outcome = attempt(&deliverer(vec![ca()]), &format!("https://hooks.test:{}/x", server.port), &event(1)).await;
    assert_eq!(outcome, DeliveryOutcome::Delivered);
    let request = server.finish();
    assert!(request.starts_with("POST /x HTTP/1.1\r\n"), "{request}");
}

#[tokio::test]
async fn w_12_an_unknown_authority_is_a_failure_without_a_second_try_in_plain() {
    let server = serve();
    let outcome = attempt(&deliverer(Vec::new()), &format!("https://hooks.test:{}/x", server.port), &event(1)).await;
    assert!(detail(&outcome).contains("UnknownIssuer"), "{outcome:?}");
    assert_eq!(server.finish(), "");
}

#[tokio::test]
async fn w_12_a_certificate_for_another_name_is_a_failure() {
    let server = serve();
    let outcome = attempt(&deliverer(vec![ca()]), &format!("https://other.test:{}/x", server.port), &event(1)).await;
    assert!(detail(&outcome).contains("not valid for name"), "{outcome:?}");
    assert_eq!(server.finish(), "");
}

#[tokio::test]
async fn w_12_a_plain_server_on_the_port_gets_nothing_it_can_read() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut bytes = [0; 8_192];
        let size = socket.read(&mut bytes).unwrap();
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        bytes[..size].to_vec()
    });
    let outcome = attempt(&deliverer(vec![ca()]), &format!("https://hooks.test:{port}/x"), &event(1)).await;
    assert!(detail(&outcome).starts_with("error sending request"), "{outcome:?}");
    let received = thread.join().unwrap();
    // A TLS handshake record, not a request.
    assert_eq!(received[0], 22);
    assert!(!String::from_utf8_lossy(&received).contains("team-vision"));
}

#[test]
fn a_root_that_is_no_certificate_is_refused_at_the_start() {
    let settings = Settings { extra_roots: vec![CertificateDer::from(vec![1, 2, 3])], ..settings() };
    let error = Deliverer::new(settings).unwrap_err().to_string();
    assert!(error.contains("extra_roots"), "{error}");
}
