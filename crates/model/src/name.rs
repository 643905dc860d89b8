//! Names. A [`Name`] is an identity and is safe in paths, labels and URLs; a [`Text`] is what people read.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use unicode_normalization::{UnicodeNormalization, is_nfc};

/// `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`: a DNS label. Its copies share one text: every key of an offer holds two.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Name(Arc<str>);

/// Text for people: NFC, 1 to 256 bytes, no control and no bidirectional override characters. Never an identity.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Box<str>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("'{0}' is not a name; use 1 to 63 of a-z, 0-9 and '-', starting and ending with a letter or digit")]
    Name(String),
    #[error("a display name must not be empty")]
    Empty,
    #[error("a display name must be at most 256 bytes; this one has {0}")]
    TooLong(usize),
    #[error("a display name must not hold the control character U+{0:04X}")]
    Control(u32),
}

/// Written as the string it is and read through its `FromStr`, without a copy in between: a store holds millions.
macro_rules! stored_as_text {
    ($type:ident, $what:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Reader;
                impl serde::de::Visitor<'_> for Reader {
                    type Value = $type;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($what)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Reader)
            }
        }
    };
}
pub(crate) use stored_as_text;

stored_as_text!(Name, "a name");
stored_as_text!(Text, "a text for people");

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Ord for Name {
    /// As the texts are ordered. Copies are equal without a look at them: neighbours in an index often share a part.
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = text.as_bytes();
        let valid = (1..=63).contains(&bytes.len())
            && bytes.iter().all(|&b| plain(b) || b == b'-')
            && plain(bytes[0])
            && plain(bytes[bytes.len() - 1]);
        if valid { Ok(Self(text.into())) } else { Err(NameError::Name(escape(text))) }
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.as_str().to_owned()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Text {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Text {
    type Err = NameError;

    /// Normalises to NFC, then checks.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let normal: String = if is_nfc(text) { text.to_owned() } else { text.nfc().collect() };
        if normal.trim().is_empty() {
            return Err(NameError::Empty);
        }
        if normal.len() > 256 {
            return Err(NameError::TooLong(normal.len()));
        }
        if let Some(bad) = normal.chars().find(|&c| c.is_control() || is_bidi_control(c)) {
            return Err(NameError::Control(bad.into()));
        }
        Ok(Self(normal.into()))
    }
}

fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{200E}' | '\u{200F}' | '\u{061C}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

impl TryFrom<String> for Text {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0.into()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// At most 64 characters, with control characters escaped, so that an error message cannot carry them to a terminal.
pub fn escape(text: &str) -> String {
    text.chars().take(64).flat_map(|c| c.escape_debug()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_01_path_parts_are_not_names() {
        for text in
            ["", "..", "../x", "..\\x", "/etc", "a/b", "c:", "a\0b", "-a", "a-", "A", "ä", &"a".repeat(64), "a_b"]
        {
            assert!(text.parse::<Name>().is_err(), "{text:?}");
        }
        assert!("team-vision2".parse::<Name>().is_ok());
        assert!("\u{1b}[31mred".parse::<Name>().unwrap_err().to_string().contains("\\u{1b}"));
    }

    #[test]
    fn x_02_display_names_are_normal_and_carry_no_controls() {
        assert_eq!("e\u{301}tude".parse::<Text>().unwrap().as_str(), "\u{e9}tude");
        for text in ["", "  ", "a\nb", "a\u{202e}b", "\u{7}", &"x".repeat(257)] {
            assert!(text.parse::<Text>().is_err(), "{text:?}");
        }
        assert!("train 🚂 v2".parse::<Text>().is_ok());
    }
}
