//! Markup that no text can break: every text and every attribute is escaped as it is written, and names of elements and
//! attributes are part of the program. Scenarios, teams and clusters are named by users.

use std::fmt::{self, Display, Write};

/// A piece of a page.
#[derive(Debug, Default)]
pub struct Html(String);

/// An element whose opening tag is still being written. Nothing of it is lost when it is dropped: it is closed by
/// [`Tag::text`], [`Tag::hold`] or [`Tag::empty`], one of which every use ends with.
#[must_use = "an element must be closed with text, hold or empty"]
pub struct Tag<'h> {
    html: &'h mut Html,
    name: &'static str,
}

impl Html {
    pub fn tag(&mut self, name: &'static str) -> Tag<'_> {
        self.0.push('<');
        self.0.push_str(name);
        Tag { html: self, name }
    }

    pub fn text(&mut self, text: &str) {
        escape(text, &mut self.0);
    }

    /// Text that is part of the program, as it is.
    pub fn raw(&mut self, markup: &'static str) {
        self.0.push_str(markup);
    }

    pub fn finish(self) -> String {
        self.0
    }

    fn close(&mut self, name: &'static str) {
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
        self.end(name);
    }

    /// Elements that do not stand within a line begin one of their own, so that two pages can be compared.
    fn end(&mut self, name: &str) {
        const WITHIN_A_LINE: [&str; 9] = ["a", "b", "code", "em", "small", "span", "title", "tspan", "button"];
        if !WITHIN_A_LINE.contains(&name) {
            self.0.push('\n');
        }
    }
}

impl Tag<'_> {
    pub fn set(self, name: &'static str, value: impl Display) -> Self {
        let mut text = String::new();
        write!(text, "{value}").expect("writing to a text does not fail");
        self.html.0.push(' ');
        self.html.0.push_str(name);
        self.html.0.push_str("=\"");
        escape(&text, &mut self.html.0);
        self.html.0.push('"');
        self
    }

    pub fn class(self, class: impl Display) -> Self {
        self.set("class", class)
    }

    pub fn text(self, text: &str) {
        self.hold(|html| html.text(text));
    }

    pub fn hold(self, inner: impl FnOnce(&mut Html)) {
        self.html.0.push('>');
        inner(self.html);
        self.html.close(self.name);
    }

    /// An element of a drawing, or one of HTML that never holds anything, such as `meta`.
    pub fn empty(self) {
        self.html.0.push_str("/>");
        self.html.end(self.name);
    }
}

/// Characters that mean something to a browser become entities; those that no document may hold become U+FFFD.
fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(character),
            // Marks that turn the direction of a line would let a name rearrange what stands beside it.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            other if other.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
}

/// A length of a drawing, to a tenth.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Px(pub f64);

impl Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round();
        let tenths = if tenths.is_finite() { tenths as i64 } else { 0 };
        if tenths % 10 == 0 { write!(f, "{}", tenths / 10) } else { write!(f, "{}", tenths as f64 / 10.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_and_no_attribute_leaves_its_place() {
        let mut html = Html::default();
        html.tag("td").class("a\" onclick='x'").text("<script>alert('&')</script>\u{0}\u{202e}");
        assert_eq!(
            html.finish(),
            "<td class=\"a&quot; onclick=&#39;x&#39;\">&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;\u{fffd}\u{fffd}</td>\n"
        );
    }

    #[test]
    fn elements_hold_elements() {
        let mut html = Html::default();
        html.tag("p").hold(|html| {
            html.text("a ");
            html.tag("b").text("b");
        });
        html.tag("path").set("d", "M0 0").empty();
        assert_eq!(html.finish(), "<p>a <b>b</b></p>\n<path d=\"M0 0\"/>\n");
    }

    #[test]
    fn lengths_are_written_to_a_tenth() {
        let text = |value: f64| Px(value).to_string();
        assert_eq!([text(1.0), text(1.26), text(-0.04), text(f64::NAN)], ["1", "1.3", "0", "0"]);
    }
}
