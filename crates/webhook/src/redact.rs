//! What may be shown of an endpoint's URL and of a receiver's reply.
//!
//! Many receivers put their credential into the path (`/services/T0/B0/token`) or the query, so of a URL only the
//! origin is ever shown. Replies are strangers' text: they may echo our signature, our URL or their own secrets.

use url::Url;

use crate::payload::escape::is_invisible;

/// Bytes of a reply that are kept.
pub const EXCERPT_BYTES_MAX: usize = 1_024;
const HIDDEN: &str = "[redacted]";

/// Scheme, host and port of an endpoint's URL; `/…` stands for whatever follows.
pub fn url(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) => parsed_url(&url),
        Err(_) => "<unreadable url>".to_owned(),
    }
}

pub(crate) fn parsed_url(url: &Url) -> String {
    let Some(host) = url.host_str() else { return format!("{}:…", url.scheme()) };
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let rest = if url.path() == "/" && url.query().is_none() && url.fragment().is_none() { "" } else { "/…" };
    format!("{}://{host}{port}{rest}", url.scheme())
}

/// The parts of an endpoint's URL that may be credentials, longest first. Short ones are left out: replacing every
/// `v1` in a reply would help nobody.
pub(crate) fn credentials(url: &Url) -> Vec<String> {
    let whole = &url[url::Position::BeforePath..];
    let segments = url.path_segments().into_iter().flatten().filter(|segment| segment.len() >= 12);
    let values: Vec<String> = url.query_pairs().map(|(_, value)| value.into_owned()).collect();
    let mut parts: Vec<String> = segments.map(str::to_owned).chain(values).chain([whole.to_owned()]).collect();
    parts.retain(|part| part.len() >= 6);
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    parts
}

/// At most [`EXCERPT_BYTES_MAX`] bytes of a reply on one line, without the given texts and without what looks like a
/// secret.
pub(crate) fn excerpt(reply: &[u8], secrets: &[String]) -> String {
    let mut text = String::from_utf8_lossy(reply).into_owned();
    for secret in secrets {
        text = text.replace(secret.as_str(), HIDDEN);
    }
    let text: String =
        hide_secrets(&text).chars().map(|c| if c.is_control() || is_invisible(c) { ' ' } else { c }).collect();
    let text = text.trim();
    text[..text.floor_char_boundary(EXCERPT_BYTES_MAX)].to_owned()
}

/// Hides words with a known prefix of secrets, and the value after a word that announces one, as in
/// `"api_key": "…"`, `password=…` or `Authorization: Bearer …`.
fn hide_secrets(text: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || "_-+/.~".contains(c);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let mut announced = false;
    while let Some(start) = rest.find(is_word) {
        let (between, tail) = rest.split_at(start);
        let (word, tail) = tail.split_at(tail.find(|c| !is_word(c)).unwrap_or(tail.len()));
        let lower = word.to_lowercase();
        let is_scheme = lower == "bearer" || lower == "basic";
        shown.push_str(between);
        if is_scheme || !(announced || looks_secret(word)) {
            shown.push_str(word);
        } else {
            shown.push_str(HIDDEN);
        }
        let names_value = tail.trim_start_matches(['"', '\'', ' ']).starts_with([':', '=']);
        announced = is_scheme || (names_value && announces_secret(&lower));
        rest = tail;
    }
    shown.push_str(rest);
    shown
}

fn looks_secret(word: &str) -> bool {
    const PREFIXES: [&str; 12] =
        ["whsec_", "whsk_", "sk_", "sk-", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "AKIA", "eyJ"];
    word.len() >= 12 && PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

fn announces_secret(lower: &str) -> bool {
    const NAMES: [&str; 9] =
        ["secret", "password", "passwd", "token", "apikey", "api_key", "api-key", "authorization", "credential"];
    NAMES.iter().any(|name| lower.contains(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn w_14_of_a_url_only_the_origin_is_shown() {
        for (text, shown) in [
            ("https://hooks.example.com/services/T0/B0/canary", "https://hooks.example.com/…"),
            ("https://hooks.example.com:8443/?token=canary", "https://hooks.example.com:8443/…"),
            ("https://user:canary@hooks.example.com/", "https://hooks.example.com"),
            ("https://canary@hooks.example.com#canary", "https://hooks.example.com/…"),
            ("https://hooks.example.com", "https://hooks.example.com"),
            ("data:canary", "data:…"),
            ("https://canary:canary@:x", "<unreadable url>"),
            ("", "<unreadable url>"),
        ] {
            assert_eq!(url(text), shown);
        }
    }

    #[test]
    fn w_14_a_reply_that_echoes_credentials_is_kept_without_them() {
        let url = Url::parse("https://h.example/services/canary-in-path?key=canary-in-query").unwrap();
        let reply = "no hook at /services/canary-in-path?key=canary-in-query (canary-in-path, canary-in-query)";
        assert_eq!(excerpt(reply.as_bytes(), &credentials(&url)), "no hook at [redacted] ([redacted], [redacted])");
        for (reply, kept) in [
            (r#"{"api_key": "canary", "user": "ada"}"#, r#"{"api_key": "[redacted]", "user": "ada"}"#),
            ("password=canary&user=ada", "password=[redacted]&user=ada"),
            ("Authorization: Bearer canary.x-y sent", "Authorization: Bearer [redacted] sent"),
            ("bad secret whsec_canarycanary", "bad secret [redacted]"),
            ("your token is too old", "your token is too old"),
        ] {
            assert_eq!(excerpt(reply.as_bytes(), &[]), kept);
        }
    }

    #[test]
    fn a_reply_cannot_write_to_a_terminal() {
        assert_eq!(excerpt("a\u{1b}[31m\r\nb\u{202e}c\0".as_bytes(), &[]), "a [31m  b c");
        assert_eq!(excerpt(&[0xff, 0xfe, b'a'], &[]), "\u{fffd}\u{fffd}a");
    }

    proptest! {
        #[test]
        fn any_reply_is_bounded_and_on_one_line(reply in proptest::collection::vec(any::<u8>(), 0..4_000)) {
            let kept = excerpt(&reply, &[]);
            prop_assert!(kept.len() <= EXCERPT_BYTES_MAX);
            prop_assert!(!kept.chars().any(char::is_control));
        }

        #[test]
        fn any_url_text_is_shown_without_its_tail(tail in "[a-z]{12}", text in "\\PC{0,40}") {
            let shown = url(&format!("https://h.example/{tail}?{text}"));
            prop_assert_eq!(shown, "https://h.example/…");
        }
    }
}
