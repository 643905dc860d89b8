//! EC2's instance metadata, second version: a session token first, then the interruption two minutes ahead and, before
//! that, the recommendation to leave.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;

/// Longest time for which EC2 warns.
const LONGEST: Duration = Duration::from_secs(120);
const SESSION_SECS: &str = "21600";
/// An instance's own metadata answers within milliseconds.
const WITHIN: Duration = Duration::from_secs(2);

/// What the metadata says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Nothing,
    /// EC2 thinks that the instance may be taken soon.
    Rebalance,
    /// The instance is taken after so long.
    Interruption(Duration),
}

/// The metadata of this instance.
#[derive(Debug)]
pub struct Metadata {
    base: String,
    client: reqwest::Client,
    session: Option<String>,
}

#[derive(Deserialize)]
struct Action {
    action: String,
    time: String,
}

impl Metadata {
    pub fn new(base: &str) -> anyhow::Result<Self> {
        // The client wants one even for plain http. That another part of the program chose it first is as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(WITHIN).no_proxy().build()?;
        Ok(Self { base: base.trim_end_matches('/').to_owned(), client, session: None })
    }

    /// One look.
    ///
    /// # Errors
    /// The metadata does not answer, or not in a way that can be read. Nothing may be concluded from it.
    pub async fn look(&mut self) -> anyhow::Result<Said> {
        if let Some((text, now)) = self.get("spot/instance-action").await? {
            let action: Action = serde_json::from_str(&text)?;
            // An instance that is stopped or hibernated is as good as gone for a run.
            tracing::info!(action = action.action, time = action.time, "the instance will be taken");
            return Ok(Said::Interruption(left(&action.time, now)?));
        }
        let recommended = self.get("events/recommendations/rebalance").await?;
        Ok(if recommended.is_some() { Said::Rebalance } else { Said::Nothing })
    }

    /// The text under a path and the time at which the metadata gave it; `None` where there is nothing.
    async fn get(&mut self, path: &str) -> anyhow::Result<Option<(String, SystemTime)>> {
        for _ in 0..2 {
            let session = self.session().await?;
            let url = format!("{}/latest/meta-data/{path}", self.base);
            let answer = self.client.get(url).header("X-aws-ec2-metadata-token", session).send().await?;
            match answer.status().as_u16() {
                200 => {
                    let date = answer
                        .headers()
                        .get("date")
                        .and_then(|date| date.to_str().ok()?.parse::<httpdate::HttpDate>().ok());
                    // The metadata's own clock, for this machine's may be wrong.
                    let now = date.map_or_else(SystemTime::now, SystemTime::from);
                    return Ok(Some((answer.text().await?, now)));
                }
                404 => return Ok(None),
                // The session has run out.
                401 => self.session = None,
                other => anyhow::bail!("the metadata answers {path} with {other}"),
            }
        }
        anyhow::bail!("the metadata takes no session")
    }

    async fn session(&mut self) -> anyhow::Result<String> {
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        let request = self.client.put(format!("{}/latest/api/token", self.base));
        let answer = request.header("X-aws-ec2-metadata-token-ttl-seconds", SESSION_SECS).send().await?;
        let session = answer.error_for_status()?.text().await?;
        self.session = Some(session.clone());
        Ok(session)
    }
}

fn left(time: &str, now: SystemTime) -> anyhow::Result<Duration> {
    let at: leeway_model::Timestamp = time.parse()?;
    let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or(0));
    Ok(at.duration_since(now).unwrap_or_default().min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i_04_the_time_that_is_left_comes_from_the_notice_itself() {
        let now = UNIX_EPOCH + Duration::from_secs(1_796_131_492);
        assert_eq!(left("2026-12-01T13:25:31Z", now).unwrap(), Duration::from_secs(39));
        assert_eq!(left("2026-12-01T13:24:00Z", now).unwrap(), Duration::ZERO);
        assert_eq!(left("2026-12-02T13:24:00Z", now).unwrap(), LONGEST);
        assert!(left("soon", now).is_err());
    }
}
