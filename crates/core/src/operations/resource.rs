//! Resources, which clients read by URI.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::operations::member_order::MemberOrder;
use crate::wire::{RawValue, json};
use serde::{Deserialize, Serialize};

/// A resource that can be read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resource {
    /// The URI by which it is read.
    pub uri: String,
    /// The name, for programs and people.
    pub name: String,
    /// The display name, if there is one.
    pub title: Option<String>,
    /// The description, for people and models.
    pub description: Option<String>,
    /// The media type, if known.
    pub mime_type: Option<String>,
    /// Members of the definition that the neutral model does not know, carried unchanged.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// The order of its members, as the server wrote them.
    #[serde(default)]
    pub order: MemberOrder,
}

impl Resource {
    /// A resource with a URI, a name and a description.
    pub fn new(uri: impl Into<String>, name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: Some(description.into()),
            mime_type: None,
            extra: Vec::new(),
            order: MemberOrder::default(),
        }
    }

    /// The same resource with a media type.
    pub fn of_type(self, mime_type: impl Into<String>) -> Self {
        Self { mime_type: Some(mime_type.into()), ..self }
    }
}

/// Resources whose URIs follow a pattern (RFC 6570).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Template {
    /// The pattern, such as `file:///{path}`. The other fields describe every resource that matches it.
    pub uri_template: String,
    /// The name, for programs and people.
    pub name: String,
    /// The display name, if there is one.
    pub title: Option<String>,
    /// The description, for people and models.
    pub description: Option<String>,
    /// The media type of all matching resources, if known.
    pub mime_type: Option<String>,
    /// Members of the definition that the neutral model does not know, carried unchanged.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// The order of its members, as the server wrote them.
    #[serde(default)]
    pub order: MemberOrder,
}

impl Template {
    /// A template with a pattern, a name and a description.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            uri_template: uri_template.into(),
            name: name.into(),
            title: None,
            description: Some(description.into()),
            mime_type: None,
            extra: Vec::new(),
            order: MemberOrder::default(),
        }
    }

    /// The same template with a media type.
    pub fn of_type(self, mime_type: impl Into<String>) -> Self {
        Self { mime_type: Some(mime_type.into()), ..self }
    }

    /// Whether the pattern is too long, or has too many expressions, to be matched against URIs.
    pub fn is_excessive(&self) -> bool {
        self.uri_template.len() > MAX_TEMPLATE_BYTES || self.uri_template.matches('{').count() > MAX_EXPRESSIONS
    }

    /// The variables of a URI that matches the pattern, in order. `None` if it does not match, or if it has more than
    /// [`MAX_URI_BYTES`] bytes. The cost is linear in the length of the URI and of the pattern.
    ///
    /// A plain `{name}` matches one or more characters other than `/`. Every other expression of RFC 6570 (`{+path}`,
    /// `{/path*}`, `{?query,page}`) matches any text, including an empty one, up to the next literal.
    pub fn variables<'u>(&self, uri: &'u str) -> Option<Vec<(&str, &'u str)>> {
        if uri.len() > MAX_URI_BYTES {
            return None;
        }
        let (mut pattern, mut rest) = (self.uri_template.as_str(), uri);
        let mut variables = Vec::new();
        while let Some((literal, behind)) = pattern.split_once('{') {
            let (expression, behind) = behind.split_once('}')?;
            rest = rest.strip_prefix(literal)?;
            let name = expression.trim_start_matches(OPERATORS).trim_end_matches('*');
            let is_plain = name == expression && !name.contains([',', ':']);
            let (next, is_last) = behind.split_once('{').map_or((behind, true), |(next, _)| (next, false));
            let end = match next {
                "" if is_plain => rest.find('/').unwrap_or(rest.len()),
                "" => rest.len(),
                next if is_last => rest.strip_suffix(next).map(str::len)?,
                next => rest.find(next)?,
            };
            if is_plain && (end == 0 || rest[..end].contains('/')) {
                return None;
            }
            variables.push((name, &rest[..end]));
            (pattern, rest) = (behind, &rest[end..]);
        }
        (rest == pattern).then_some(variables)
    }

    /// The literal prefix of every URI that matches the pattern.
    pub fn literal(&self) -> &str {
        self.uri_template.split('{').next().unwrap_or_default()
    }

    /// Whether the pattern fixes the scheme of its URIs. A pattern that does not (`{+uri}`, `{scheme}://{host}`) may
    /// claim any URI.
    pub fn has_scheme(&self) -> bool {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        self.literal().split_once(':').is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.bytes().all(is_part))
    }
}

/// Maximum length of a listed template, in bytes.
pub const MAX_TEMPLATE_BYTES: usize = 2048;

/// Maximum number of expressions in a listed template.
pub const MAX_EXPRESSIONS: usize = 64;

/// Maximum length, in bytes, of a URI that is matched against templates.
pub const MAX_URI_BYTES: usize = 64 * 1024;

/// The characters that start an RFC 6570 expression that is not plain.
const OPERATORS: [char; 7] = ['+', '#', '.', '/', ';', '?', '&'];

/// How many subscriptions a subscription to this URI counts as. A limit on their number thereby also limits the memory
/// for their URIs.
pub fn subscription_weight(uri: &str) -> usize {
    1 + uri.len() / BYTES_PER_SUBSCRIPTION
}

const BYTES_PER_SUBSCRIPTION: usize = 256;

/// Whether a URI equals another one, or is below it.
pub fn is_part_of(uri: &str, whole: &str) -> bool {
    uri.strip_prefix(whole)
        .is_some_and(|rest| rest.is_empty() || whole.ends_with('/') || rest.starts_with(['/', '?', '#']))
}

/// The map entries for a URI and for everything that it is a part of, longest first. Entries between two prefixes of
/// the URI are skipped as a range, so few entries are visited.
pub fn wholes_of<'m, V>(map: &'m BTreeMap<String, V>, uri: &str) -> impl Iterator<Item = (&'m String, &'m V)> {
    let mut last = Bound::Included(uri);
    std::iter::from_fn(move || {
        loop {
            let (whole, value) = map.range::<str, _>((Bound::Unbounded, last)).next_back()?;
            if let Some(rest) = uri.strip_prefix(whole.as_str()) {
                last = Bound::Excluded(&uri[..uri.len() - rest.len()]);
                if is_part_of(uri, whole) {
                    return Some((whole, value));
                }
            } else {
                last = Bound::Included(common_beginning(uri, whole));
            }
        }
    })
}

/// The longest common prefix of two texts.
fn common_beginning<'t>(text: &'t str, other: &str) -> &'t str {
    let common = text.char_indices().zip(other.chars()).find(|((_, one), another)| one != another);
    common.map_or(text, |((at, _), _)| &text[..at])
}

/// The contents of a resource.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// The parts: objects with `uri`, `mimeType` and either `text` or `blob`.
    pub parts: Vec<Box<RawValue>>,
    /// Members that the neutral model does not know, carried unchanged.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// The order of its members, as the server wrote them.
    pub order: MemberOrder,
}

impl Contents {
    /// One text part.
    pub fn text(uri: &str, mime_type: &str, text: &str) -> Self {
        Self::part(&serde_json::json!({"uri": uri, "mimeType": mime_type, "text": text}))
    }

    /// One binary part, given in base64.
    pub fn blob(uri: &str, mime_type: &str, base64: &str) -> Self {
        Self::part(&serde_json::json!({"uri": uri, "mimeType": mime_type, "blob": base64}))
    }

    fn part(part: &serde_json::Value) -> Self {
        Self { parts: vec![json::to_raw(part)], ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_prefix_resources_of_a_uri_are_found() {
        let uris = ["a:", "a:/", "a:/b", "a:/b/c", "a:/b/c?d", "a:/b/cc", "a:/b0", "a:/ä", "a:/ö/x", "b:", "", "a"];
        let map: BTreeMap<String, ()> = uris.into_iter().map(|uri| (uri.to_owned(), ())).collect();
        for uri in uris.into_iter().chain(["a:/b/c/d", "a:/b/d", "a:/ö", "a:/ö/x#y", "a:/é", "c:", "/", "a:/b/c?dd"])
        {
            let mut expected: Vec<_> = map.keys().filter(|whole| is_part_of(uri, whole)).collect();
            expected.reverse();
            let found: Vec<_> = wholes_of(&map, uri).map(|(whole, ())| whole).collect();
            assert_eq!(found, expected, "{uri}");
        }
    }

    #[test]
    fn long_templates_and_uris_are_detected() {
        let is_excessive = |text: String| Template::new(text, "", "").is_excessive();
        assert_eq!([2048, 2049].map(|length| is_excessive("a".repeat(length))), [false, true]);
        assert_eq!([64, 65].map(|count| is_excessive("{a}".repeat(count))), [false, true]);
        let template = Template::new("a:{+x}", "", "");
        let follows = |length: usize| template.variables(&format!("a:{}", "b".repeat(length - 2))).is_some();
        assert_eq!([MAX_URI_BYTES, MAX_URI_BYTES + 1].map(follows), [true, false]);
    }

    #[test]
    fn a_uri_that_matches_a_template_gives_its_variables() {
        let template = |pattern: &str| Template::new(pattern, "t", "");
        let one = template("test://template/{id}/data");
        assert_eq!(one.variables("test://template/7/data"), Some(vec![("id", "7")]));
        for other in ["test://template//data", "test://template/7/8/data", "test://template/7/dat", "x"] {
            assert_eq!(one.variables(other), None, "{other}");
        }
        let two = template("a:{x}-{y}");
        assert_eq!(two.variables("a:1-2"), Some(vec![("x", "1"), ("y", "2")]));
        assert_eq!(template("a:{x").variables("a:{x"), None, "an invalid pattern must match no URI");
        assert_eq!(template("a:b").variables("a:b"), Some(vec![]));
    }

    #[test]
    fn an_expression_with_an_operator_matches_any_text() {
        let variables = |pattern: &str, uri: &str| -> Option<Vec<String>> {
            let template = Template::new(pattern, "t", "");
            let found = template.variables(uri)?;
            Some(found.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
        };
        let one = |text: &str| Some(vec![text.to_owned()]);
        assert_eq!(variables("file:///{+path}", "file:///a/b"), one("path=a/b"));
        assert_eq!(variables("file://{/path*}", "file:///a/b"), one("path=/a/b"));
        assert_eq!(variables("a:x{?q,page}", "a:x"), one("q,page="));
        assert_eq!(variables("a:x{?q,page}", "a:x?q=1"), one("q,page=?q=1"));
        assert_eq!(
            variables("a:{+path}/end", "a:1/end/2/end"),
            one("path=1/end/2"),
            "the last literal must end the expression"
        );
        assert_eq!(variables("{scheme}://{+rest}", "a://b/c"), Some(vec!["scheme=a".into(), "rest=b/c".into()]));
        assert_eq!(variables("a:{+path}/end", "a:1"), None);
    }

    #[test]
    fn a_template_without_a_scheme_is_detected() {
        for (pattern, literal, has_scheme) in [
            ("file:///srv/{+path}", "file:///srv/", true),
            ("note:{id}", "note:", true),
            ("a:b", "a:b", true),
            ("{+uri}", "", false),
            ("{scheme}://{+rest}", "", false),
            ("fi{rest}", "fi", false),
            (":{rest}", ":", false),
            ("a/b:{rest}", "a/b:", false),
        ] {
            let template = Template::new(pattern, "t", "");
            assert_eq!((template.literal(), template.has_scheme()), (literal, has_scheme), "{pattern}");
        }
    }
}
