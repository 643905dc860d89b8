//! EC2 on this host: the emulator moto, behind a proxy that does what moto does not. The proxy keeps the promise of client
//! tokens, answers the history of spot prices, has little room, fails before or after an effect, hides what is new, and
//! breaks listings into pages. An instance can be booted: then its start script runs as a process here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use tempfile::TempDir;

use super::{kill_tree, program, skipped};

/// When and how a call fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing was done, and nobody says so.
    Before,
    /// It was done, and nobody says so.
    After,
    /// EC2 refuses with a code.
    Refused(u16, &'static str),
}

/// A spot price: type, zone, price, instant.
pub type SpotPrice = (&'static str, &'static str, &'static str, &'static str);

/// What the proxy does.
#[derive(Debug, Default)]
pub struct Plan {
    faults: BTreeMap<String, Vec<Fault>>,
    pub prices: Vec<SpotPrice>,
    /// Most instances at once.
    pub room: Option<usize>,
    /// New instances are not listed for so long.
    pub hidden_for: Duration,
    /// Instances on a page of a listing.
    pub page: Option<usize>,
    /// Every page but the first fails.
    pub break_pages: bool,
    /// Nothing answers.
    pub is_cut: bool,
    /// Instances run their start scripts.
    pub boots: bool,
    /// How long a boot waits, and with it an answer to who launches.
    pub launch_delay: Duration,
    interruption: Option<String>,
    calls: BTreeMap<String, u32>,
    /// Client tokens with the parameters and the answer of their first call.
    tokens: BTreeMap<String, (String, String)>,
    instances: BTreeMap<String, Instance>,
}

#[derive(Debug)]
struct Instance {
    made: Instant,
    lives: bool,
    process: Option<Child>,
}

/// See the module.
#[derive(Clone)]
pub struct Ec2 {
    shared: Arc<Shared>,
}

struct Shared {
    folder: TempDir,
    moto: Mutex<Child>,
    upstream: String,
    address: SocketAddr,
    client: reqwest::Client,
    plan: Mutex<Plan>,
}

impl std::fmt::Debug for Ec2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ec2").field("address", &self.shared.address).finish()
    }
}

impl Ec2 {
    /// `None`, with a word about it, where moto is not installed.
    pub async fn start() -> Option<Self> {
        let Some(moto) = moto() else {
            skipped("'moto_server' is not installed (LEEWAY_TEST_MOTO may name it); these tests need an EC2");
            return None;
        };
        let _ = rustls::crypto::ring::default_provider().install_default();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::Builder::new().prefix("leeway-ec2-").tempdir().unwrap();
        let log = std::fs::File::create(folder.path().join("moto.log")).unwrap();
        let moto = Command::new(moto)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let upstream = format!("http://127.0.0.1:{port}");
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30)).build().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared { folder, moto: Mutex::new(moto), upstream, address, client, plan: Mutex::default() };
        let ec2 = Self { shared: Arc::new(shared) };
        let answers = crate::wait::eventually("moto answers", || async {
            ec2.shared.client.get(format!("{}/moto-api/", ec2.shared.upstream)).send().await.ok()
        });
        answers.await;
        let path = ec2.shared.folder.path().join("bin/shutdown");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let keys = "[default]\naws_access_key_id = test\naws_secret_access_key = test\n";
        std::fs::write(ec2.credentials(), keys).unwrap();
        std::fs::set_permissions(ec2.credentials(), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let router = Router::new()
            .route("/", post(call))
            .route("/latest/api/token", put(|| async { "session" }))
            .route("/latest/meta-data/{*path}", get(metadata))
            .with_state(ec2.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Some(ec2)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.shared.address)
    }

    /// Where its object store answers.
    pub fn s3(&self) -> &str {
        &self.shared.upstream
    }

    pub async fn make_bucket(&self, name: &str) {
        let scope =
            "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let request = self.shared.client.put(format!("{}/{name}", self.s3())).header("authorization", scope);
        assert!(request.send().await.unwrap().status().is_success());
    }

    /// A file with a key that this EC2 takes.
    pub fn credentials(&self) -> PathBuf {
        self.shared.folder.path().join("credentials")
    }

    /// For what a booted instance writes.
    pub fn work_dir(&self) -> PathBuf {
        self.shared.folder.path().join("instances")
    }

    pub fn plan(&self) -> MutexGuard<'_, Plan> {
        self.shared.plan.lock().unwrap()
    }

    /// The next call of an action fails so; several in turn.
    pub fn fail(&self, action: &str, fault: Fault) {
        self.plan().faults.entry(action.to_owned()).or_default().push(fault);
    }

    pub fn count(&self, action: &str) -> u32 {
        self.plan().calls.get(action).copied().unwrap_or(0)
    }

    /// Instances that were not terminated.
    pub fn living(&self) -> Vec<String> {
        let plan = self.plan();
        plan.instances.iter().filter(|(_, instance)| instance.lives).map(|(id, _)| id.clone()).collect()
    }

    /// Terminates an instance past the driver.
    pub async fn terminate(&self, id: &str) {
        self.forward(&[("Action", "TerminateInstances"), ("Version", "2016-11-15"), ("InstanceId.1", id)]).await;
        self.end(id);
    }

    /// Makes an instance with tags of somebody else's choice.
    pub async fn make(&self, tags: &[(&str, &str)]) -> String {
        let mut form = vec![
            ("Action".to_owned(), "RunInstances".to_owned()),
            ("Version".into(), "2016-11-15".into()),
            ("ImageId".into(), "ami-12c6146b".into()),
            ("MinCount".into(), "1".into()),
            ("MaxCount".into(), "1".into()),
            ("TagSpecification.1.ResourceType".into(), "instance".into()),
        ];
        for (number, (key, value)) in (1..).zip(tags) {
            form.push((format!("TagSpecification.1.Tag.{number}.Key"), (*key).to_owned()));
            form.push((format!("TagSpecification.1.Tag.{number}.Value"), (*value).to_owned()));
        }
        let pairs: Vec<(&str, &str)> = form.iter().map(|(key, value)| (&**key, &**value)).collect();
        let (_, text) = self.forward(&pairs).await;
        let id = between(&text, "<instanceId>", "</instanceId>").first().cloned().unwrap();
        self.plan().instances.insert(id.clone(), Instance { made: Instant::now(), lives: true, process: None });
        id
    }

    /// EC2 warns every instance, and takes it after so long.
    pub fn interrupt(&self, after: Duration) {
        let at = std::time::SystemTime::now() + after;
        let millis = at.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let at = leeway_model::Timestamp::from_millis(i64::try_from(millis).unwrap());
        self.plan().interruption = Some(format!(r#"{{"action":"terminate","time":"{at}"}}"#));
        let (ec2, ids) = (self.clone(), self.living());
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            for id in ids {
                ec2.terminate(&id).await;
            }
            ec2.plan().interruption = None;
        });
    }

    /// What the start scripts' agents said.
    pub fn said(&self) -> String {
        let mut said = String::new();
        for run in std::fs::read_dir(self.work_dir()).into_iter().flatten().flatten() {
            for rank in std::fs::read_dir(run.path()).into_iter().flatten().flatten() {
                said += &std::fs::read_to_string(rank.path().join("agent.err")).unwrap_or_default();
            }
        }
        said
    }

    /// No client hears of it: as when the power goes.
    fn end(&self, id: &str) {
        let process = self.plan().instances.get_mut(id).and_then(|instance| {
            instance.lives = false;
            instance.process.take()
        });
        if let Some(mut process) = process {
            kill_tree(process.id());
            let _ = process.wait();
        }
    }

    async fn forward(&self, form: &[(&str, &str)]) -> (StatusCode, String) {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = self.shared.client.post(&self.shared.upstream);
        // moto reads the service from the signature's scope.
        let scope =
            "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0";
        let request =
            request.header("authorization", scope).header("content-type", "application/x-www-form-urlencoded");
        let answer = request.body(body).send().await.unwrap();
        let status = StatusCode::from_u16(answer.status().as_u16()).unwrap();
        (status, answer.text().await.unwrap())
    }

    /// Starts what an instance starts with, and terminates it when that has ended.
    fn boot(&self, id: String, script: String) {
        let bin = self.shared.folder.path().join("bin");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(script)
            .env("PATH", path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // What the profile of an instance gives to its programs.
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        let child = command.spawn().unwrap();
        self.plan().instances.get_mut(&id).unwrap().process = Some(child);
        let ec2 = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let ended = match ec2.plan().instances.get_mut(&id).and_then(|instance| instance.process.as_mut()) {
                    Some(process) => process.try_wait().unwrap().is_some(),
                    None => return,
                };
                if ended {
                    return ec2.terminate(&id).await;
                }
            }
        });
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for instance in self.plan.lock().unwrap().instances.values_mut() {
            if let Some(mut process) = instance.process.take() {
                kill_tree(process.id());
                let _ = process.wait();
            }
        }
        let moto = self.moto.get_mut().unwrap();
        let _ = moto.kill();
        let _ = moto.wait();
    }
}

fn moto() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("LEEWAY_TEST_MOTO") {
        return Some(given.into());
    }
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/moto/bin/moto_server");
    if beside.is_file() { Some(beside) } else { program("moto_server") }
}

fn refusal(status: u16, code: &str) -> Response {
    let text = format!(
        "<?xml version=\"1.0\"?><Response><Errors><Error><Code>{code}</Code><Message>said the proxy</Message></Error></Errors><RequestID>0</RequestID></Response>"
    );
    (StatusCode::from_u16(status).unwrap(), [("content-type", "text/xml")], text).into_response()
}

/// An answer that was cut off: an error of a server that says nothing.
fn silence() -> Response {
    (StatusCode::BAD_GATEWAY, "").into_response()
}

fn xml(text: String) -> Response {
    (StatusCode::OK, [("content-type", "text/xml")], text).into_response()
}

/// Every text between two marks.
fn between(text: &str, from: &str, to: &str) -> Vec<String> {
    let parts = text.split(from).skip(1).filter_map(|part| part.split(to).next());
    parts.map(|part| part.trim().to_owned()).collect()
}

async fn metadata(State(ec2): State<Ec2>, Path(path): Path<String>, _: HeaderMap) -> Result<String, StatusCode> {
    match path.as_str() {
        "ami-launch-index" => Ok("0".into()),
        "spot/instance-action" => ec2.plan().interruption.clone().ok_or(StatusCode::NOT_FOUND),
        _ => Err(StatusCode::NOT_FOUND),
    }
}

/// What was begun is finished, though whoever asked for it is gone.
async fn call(State(ec2): State<Ec2>, body: Bytes) -> Response {
    tokio::spawn(answer(ec2, body)).await.unwrap()
}

async fn answer(ec2: Ec2, body: Bytes) -> Response {
    let form: BTreeMap<String, String> = url::form_urlencoded::parse(&body).into_owned().collect();
    let action = form.get("Action").cloned().unwrap_or_default();
    let fault = {
        let mut plan = ec2.plan();
        *plan.calls.entry(action.clone()).or_default() += 1;
        if plan.is_cut {
            return silence();
        }
        let faults = plan.faults.entry(action.clone()).or_default();
        if faults.is_empty() { None } else { Some(faults.remove(0)) }
    };
    match fault {
        Some(Fault::Before) => return silence(),
        Some(Fault::Refused(status, code)) => return refusal(status, code),
        Some(Fault::After) | None => {}
    }
    let answer = match action.as_str() {
        "RunInstances" => run_instances(&ec2, form).await,
        "DescribeInstances" => describe_instances(&ec2, form).await,
        "DescribeSpotPriceHistory" => spot_prices(&ec2, &form),
        "TerminateInstances" => {
            for (key, id) in &form {
                if key.starts_with("InstanceId.") {
                    if is_hidden(&ec2, id) {
                        return refusal(400, "InvalidInstanceID.NotFound");
                    }
                    ec2.end(id);
                }
            }
            forwarded(&ec2, &form).await
        }
        _ => forwarded(&ec2, &form).await,
    };
    if fault == Some(Fault::After) { silence() } else { answer }
}

async fn forwarded(ec2: &Ec2, form: &BTreeMap<String, String>) -> Response {
    let pairs: Vec<(&str, &str)> = form.iter().map(|(key, value)| (&**key, &**value)).collect();
    let (status, text) = ec2.forward(&pairs).await;
    (status, [("content-type", "text/xml")], text).into_response()
}

fn is_hidden(ec2: &Ec2, id: &str) -> bool {
    let plan = ec2.plan();
    plan.instances.get(id).is_some_and(|instance| instance.made.elapsed() < plan.hidden_for)
}

async fn run_instances(ec2: &Ec2, mut form: BTreeMap<String, String>) -> Response {
    let token = form.get("ClientToken").cloned().unwrap_or_default();
    let said = format!("{form:?}");
    {
        let plan = ec2.plan();
        if let Some((known, answer)) = plan.tokens.get(&token).filter(|_| !token.is_empty()) {
            return if *known == said { xml(answer.clone()) } else { refusal(400, "IdempotentParameterMismatch") };
        }
        let wanted: usize = form["MinCount"].parse().unwrap();
        let living = plan.instances.values().filter(|instance| instance.lives).count();
        if plan.room.is_some_and(|room| living + wanted > room) {
            // As EC2 does: a fault of the server's.
            return refusal(500, "InsufficientInstanceCapacity");
        }
    }
    // moto knows a few images only.
    form.insert("ImageId".into(), "ami-12c6146b".into());
    form.remove("IamInstanceProfile.Name");
    let pairs: Vec<(&str, &str)> = form.iter().map(|(key, value)| (&**key, &**value)).collect();
    let (status, text) = ec2.forward(&pairs).await;
    if !status.is_success() {
        return (status, text).into_response();
    }
    let ids: BTreeSet<String> = between(&text, "<instanceId>", "</instanceId>").into_iter().collect();
    let (boots, delay) = {
        let mut plan = ec2.plan();
        for id in &ids {
            plan.instances.insert(id.clone(), Instance { made: Instant::now(), lives: true, process: None });
        }
        plan.tokens.insert(token, (said, text.clone()));
        (plan.boots, plan.launch_delay)
    };
    if boots {
        use base64::Engine as _;
        let script = base64::engine::general_purpose::STANDARD.decode(&form["UserData"]).unwrap();
        for id in ids {
            ec2.boot(id, String::from_utf8(script.clone()).unwrap());
        }
    }
    tokio::time::sleep(delay).await;
    xml(text)
}

/// Leaves out what is hidden, and gives one page of the rest.
async fn describe_instances(ec2: &Ec2, mut form: BTreeMap<String, String>) -> Response {
    let (page, breaks) = {
        let plan = ec2.plan();
        (plan.page, plan.break_pages)
    };
    let from: usize = form.remove("NextToken").and_then(|token| token.parse().ok()).unwrap_or(0);
    form.remove("MaxResults");
    if breaks && from > 0 {
        return refusal(503, "Unavailable");
    }
    let pairs: Vec<(&str, &str)> = form.iter().map(|(key, value)| (&**key, &**value)).collect();
    let (status, text) = ec2.forward(&pairs).await;
    let Some((head, rest)) = text.split_once("<reservationSet>").filter(|_| status.is_success()) else {
        return (status, text).into_response();
    };
    let (set, _) = rest.rsplit_once("</reservationSet>").unwrap();
    let marks: Vec<usize> =
        set.match_indices("<reservationId>").map(|(at, _)| set[..at].rfind("<item>").unwrap()).collect();
    let ends = marks.iter().skip(1).copied().chain([set.len()]);
    let all: Vec<&str> = marks.iter().zip(ends).map(|(from, to)| &set[*from..to]).collect();
    let visible = |one: &&str| between(one, "<instanceId>", "</instanceId>").iter().all(|id| !is_hidden(ec2, id));
    let shown: Vec<&str> = all.into_iter().filter(visible).collect();
    let to = page.map_or(shown.len(), |page| (from + page).min(shown.len()));
    let next = if to < shown.len() { format!("<nextToken>{to}</nextToken>") } else { String::new() };
    let items: String = shown[from.min(to)..to].concat();
    xml(format!("{head}<reservationSet>{items}</reservationSet>{next}</DescribeInstancesResponse>"))
}

/// Two prices a page.
fn spot_prices(ec2: &Ec2, form: &BTreeMap<String, String>) -> Response {
    let types: Vec<&String> =
        form.iter().filter(|(key, _)| key.starts_with("InstanceType.")).map(|(_, value)| value).collect();
    let since = form.get("StartTime").cloned().unwrap_or_default();
    let plan = ec2.plan();
    let wanted = plan.prices.iter().filter(|(kind, ..)| types.iter().any(|one| *one == kind));
    // EC2 also tells the price that stood when the time asked for began; this one tells changes alone.
    let rows: Vec<String> = wanted
        .filter(|(_, _, _, at)| **at >= *since || since.is_empty())
        .map(|(kind, zone, price, at)| {
            format!(
                "<item><instanceType>{kind}</instanceType><productDescription>Linux/UNIX</productDescription><spotPrice>{price}</spotPrice><timestamp>{at}</timestamp><availabilityZone>{zone}</availabilityZone></item>"
            )
        })
        .collect();
    let from: usize = form.get("NextToken").and_then(|token| token.parse().ok()).unwrap_or(0);
    let to = (from + 2).min(rows.len());
    let next = if to < rows.len() { to.to_string() } else { String::new() };
    let rows = rows[from.min(to)..to].concat();
    xml(format!(
        "<?xml version=\"1.0\"?><DescribeSpotPriceHistoryResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>0</requestId><spotPriceHistorySet>{rows}</spotPriceHistorySet><nextToken>{next}</nextToken></DescribeSpotPriceHistoryResponse>"
    ))
}
