//! An object store that misbehaves by plan, for tests and simulations.
//!
//! A plan is a list of [`Rule`]s. Each call is offered to the rules in order; the first that matches, has skipped its
//! first `skip` matches and has `times` left decides. Without such a rule the call goes through.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use tokio::sync::watch;

/// Kinds of calls. A part belongs to an upload that a `Put` started and a `Complete` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Put,
    Part,
    Complete,
    Get,
    Head,
    List,
    Delete,
}

#[derive(Clone, Debug)]
pub enum Fault {
    /// Answers like an overloaded service; nothing happens.
    Unavailable,
    /// Disk or quota used up; nothing happens.
    Full,
    Denied,
    /// Gives no answer until the plan is replaced; dropping the call is the caller's machine stopping here. See
    /// [`FaultyStore::hung`].
    Hang,
    /// Does it and loses the answer: the caller sees `Unavailable`.
    ReplyLost,
    /// Keeps only the first bytes and reports success.
    Torn {
        keep: usize,
    },
    /// Keeps only the first bytes and fails.
    TornLost {
        keep: usize,
    },
    /// Reads come back with this byte changed.
    Flip {
        at: usize,
        mask: u8,
    },
    /// Reads find nothing. Limited by `times`, this is late visibility.
    Missing,
    /// Somebody else writes this first; then the call goes on.
    Raced {
        bytes: Bytes,
    },
}

/// One line of a plan.
#[derive(Clone, Debug)]
pub struct Rule {
    pub fault: Fault,
    /// Calls it applies to; empty means all.
    pub ops: Vec<Op>,
    /// Text that the object's key holds; empty means every object.
    pub object: String,
    pub skip: usize,
    pub times: usize,
}

impl Rule {
    /// Applies to every call until narrowed.
    pub fn new(fault: Fault) -> Self {
        Self { fault, ops: Vec::new(), object: String::new(), skip: 0, times: usize::MAX }
    }

    #[must_use]
    pub fn on(mut self, op: Op) -> Self {
        self.ops.push(op);
        self
    }

    #[must_use]
    pub fn object(mut self, part: &str) -> Self {
        self.object = part.to_owned();
        self
    }

    #[must_use]
    pub const fn skip(mut self, skip: usize) -> Self {
        self.skip = skip;
        self
    }

    #[must_use]
    pub const fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }
}

#[derive(Debug, Default)]
struct Plan {
    rules: Vec<Rule>,
    calls: Vec<(Op, String)>,
}

impl Plan {
    fn next(&mut self, op: Op, object: &Path) -> Option<Fault> {
        self.calls.push((op, object.to_string()));
        for rule in &mut self.rules {
            let fits = (rule.ops.is_empty() || rule.ops.contains(&op)) && object.as_ref().contains(&rule.object);
            if !fits || rule.times == 0 {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            rule.times -= 1;
            return Some(rule.fault.clone());
        }
        None
    }
}

/// The store with its plan. Clones share both.
#[derive(Clone, Debug)]
pub struct FaultyStore {
    inner: Arc<dyn ObjectStore>,
    plan: Arc<Mutex<Plan>>,
    hung: watch::Sender<bool>,
}

impl FaultyStore {
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self { inner, plan: Arc::default(), hung: watch::Sender::new(false) }
    }

    /// Replaces the plan and forgets the calls so far.
    pub fn set(&self, rules: impl IntoIterator<Item = Rule>) {
        *self.plan() = Plan { rules: rules.into_iter().collect(), calls: Vec::new() };
        self.hung.send_replace(false);
    }

    /// Every call since the plan was set, in order of arrival.
    pub fn calls(&self) -> Vec<(Op, String)> {
        self.plan().calls.clone()
    }

    /// Waits until a call met [`Fault::Hang`].
    pub async fn hung(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.hung.subscribe().wait_for(|hung| *hung).await;
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fault for a call, after serving those that need no more than an answer.
    async fn meet(&self, op: Op, object: &Path) -> Result<Option<Fault>> {
        let fault = self.plan().next(op, object);
        match fault {
            Some(Fault::Hang) => {
                self.hung.send_replace(true);
                // The sender lives in `self`, so waiting cannot fail.
                let _ = self.hung.subscribe().wait_for(|hung| !*hung).await;
                Ok(None)
            }
            Some(Fault::Unavailable) => Err(unavailable()),
            Some(Fault::Full) => Err(generic(std::io::Error::from(std::io::ErrorKind::StorageFull))),
            Some(Fault::Denied) => {
                Err(Error::PermissionDenied { path: object.to_string(), source: "denied by plan".into() })
            }
            Some(Fault::Missing) if matches!(op, Op::Get | Op::Head) => {
                Err(Error::NotFound { path: object.to_string(), source: "missing by plan".into() })
            }
            other => Ok(other),
        }
    }

    /// What happens to a write that went through.
    async fn after_write(&self, object: &Path, fault: Option<Fault>) -> Result<()> {
        match fault {
            Some(Fault::ReplyLost) => Err(unavailable()),
            Some(Fault::Torn { keep }) => self.tear(object, keep).await,
            Some(Fault::TornLost { keep }) => {
                self.tear(object, keep).await?;
                Err(unavailable())
            }
            _ => Ok(()),
        }
    }

    async fn tear(&self, object: &Path, keep: usize) -> Result<()> {
        let bytes = self.inner.get(object).await?.bytes().await?;
        let kept = bytes.slice(..keep.min(bytes.len()));
        self.inner.put(object, kept.into()).await.map(drop)
    }

    async fn race(&self, object: &Path, fault: Option<&Fault>) -> Result<()> {
        match fault {
            Some(Fault::Raced { bytes }) => self.inner.put(object, bytes.clone().into()).await.map(drop),
            _ => Ok(()),
        }
    }
}

fn generic(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: "faulty", source: source.into() }
}

fn unavailable() -> Error {
    generic("503 slow down")
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let fault = self.meet(Op::Put, location).await?;
        self.race(location, fault.as_ref()).await?;
        let put = self.inner.put_opts(location, payload, options).await?;
        self.after_write(location, fault).await?;
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let fault = self.meet(Op::Put, location).await?;
        self.race(location, fault.as_ref()).await?;
        let inner = self.inner.put_multipart_opts(location, options).await?;
        Ok(Box::new(FaultyUpload { store: self.clone(), object: location.clone(), inner }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let op = if options.head { Op::Head } else { Op::Get };
        let fault = self.meet(op, location).await?;
        let found = self.inner.get_opts(location, options).await?;
        match fault {
            Some(Fault::ReplyLost) => Err(unavailable()),
            Some(Fault::Flip { at, mask }) if op == Op::Get => flip(found, at, mask).await,
            _ => Ok(found),
        }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let delete = move |location: Result<Path>| {
            let store = store.clone();
            async move {
                let location = location?;
                let fault = store.meet(Op::Delete, &location).await?;
                store.inner.delete(&location).await?;
                store.after_write(&location, fault.filter(|fault| matches!(fault, Fault::ReplyLost))).await?;
                Ok(location)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            match store.meet(Op::List, &prefix.clone().unwrap_or_default()).await {
                Ok(Some(Fault::Missing)) => stream::empty().boxed(),
                Ok(_) => store.inner.list(prefix.as_ref()),
                Err(error) => stream::once(async { Err(error) }).boxed(),
            }
        };
        listed.flatten_stream().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.meet(Op::List, &prefix.cloned().unwrap_or_default()).await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let fault = self.meet(Op::Put, to).await?;
        self.inner.copy_opts(from, to, options).await?;
        self.after_write(to, fault).await
    }
}

/// Changes one byte of the object, when the range that was read holds it.
async fn flip(found: GetResult, at: usize, mask: u8) -> Result<GetResult> {
    let (meta, range, attributes) = (found.meta.clone(), found.range.clone(), found.attributes.clone());
    let mut bytes = found.bytes().await?.to_vec();
    let inside = at.checked_sub(usize::try_from(range.start).unwrap_or(usize::MAX));
    if let Some(byte) = inside.and_then(|inside| bytes.get_mut(inside)) {
        *byte ^= mask;
    }
    let payload = GetResultPayload::Stream(stream::once(async { Ok(Bytes::from(bytes)) }).boxed());
    Ok(GetResult { payload, meta, range, attributes, extensions: Default::default() })
}

#[derive(Debug)]
struct FaultyUpload {
    store: FaultyStore,
    object: Path,
    inner: Box<dyn MultipartUpload>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (store, object, part) = (self.store.clone(), self.object.clone(), self.inner.put_part(data));
        async move {
            store.meet(Op::Part, &object).await?;
            part.await
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let fault = self.store.meet(Op::Complete, &self.object).await?;
        let done = self.inner.complete().await?;
        self.store.after_write(&self.object, fault).await?;
        Ok(done)
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}
