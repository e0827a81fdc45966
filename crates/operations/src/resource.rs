//! Resources: things that can be read, by URI.

use gladhand_wire::{RawValue, json};
use serde::{Deserialize, Serialize};

/// A resource that can be read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resource {
    /// Under which it is read.
    pub uri: String,
    /// Its name, for programs and people.
    pub name: String,
    /// A name for people, where there is one.
    pub title: Option<String>,
    /// What it is, for people and models.
    pub description: Option<String>,
    /// Its media type, if that is known.
    pub mime_type: Option<String>,
    /// Members of its definition that the neutral model does not know, carried untouched.
    pub extra: Vec<(String, Box<RawValue>)>,
}

impl Resource {
    /// A resource with a URI, a name and a description, and nothing unusual.
    pub fn new(uri: impl Into<String>, name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: Some(description.into()),
            mime_type: None,
            extra: Vec::new(),
        }
    }

    /// The same resource, of a media type.
    pub fn of_type(self, mime_type: impl Into<String>) -> Self {
        Self { mime_type: Some(mime_type.into()), ..self }
    }
}

/// Resources whose URIs follow a pattern (RFC 6570).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Template {
    /// The pattern, such as `file:///{path}`. The rest is said of every resource that follows it.
    pub uri_template: String,
    /// Its name, for programs and people.
    pub name: String,
    /// A name for people, where there is one.
    pub title: Option<String>,
    /// What they are, for people and models.
    pub description: Option<String>,
    /// The media type of all of them, if that is known.
    pub mime_type: Option<String>,
    /// Members of its definition that the neutral model does not know, carried untouched.
    pub extra: Vec<(String, Box<RawValue>)>,
}

impl Template {
    /// A template with a pattern, a name and a description, and nothing unusual.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            uri_template: uri_template.into(),
            name: name.into(),
            title: None,
            description: Some(description.into()),
            mime_type: None,
            extra: Vec::new(),
        }
    }

    /// The same template, of a media type.
    pub fn of_type(self, mime_type: impl Into<String>) -> Self {
        Self { mime_type: Some(mime_type.into()), ..self }
    }

    /// The variables of a URI that follows the pattern, in order; `None` if it does not.
    ///
    /// Only plain `{name}` expressions are understood: each matches one or more characters other than `/`.
    pub fn variables<'u>(&self, uri: &'u str) -> Option<Vec<(&str, &'u str)>> {
        let (mut pattern, mut rest) = (self.uri_template.as_str(), uri);
        let mut variables = Vec::new();
        while let Some((literal, behind)) = pattern.split_once('{') {
            let (name, behind) = behind.split_once('}')?;
            rest = rest.strip_prefix(literal)?;
            let next = behind.split('{').next().unwrap_or_default();
            let segment = rest.find('/').unwrap_or(rest.len());
            let end = if next.is_empty() { segment } else { rest.find(next).filter(|end| *end <= segment)? };
            if end == 0 {
                return None;
            }
            variables.push((name, &rest[..end]));
            (pattern, rest) = (behind, &rest[end..]);
        }
        (rest == pattern).then_some(variables)
    }
}

/// What is in a resource.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// Its parts: objects with `uri`, `mimeType` and either `text` or `blob`.
    pub parts: Vec<Box<RawValue>>,
    /// Members that the neutral model does not know, carried untouched.
    pub extra: Vec<(String, Box<RawValue>)>,
}

impl Contents {
    /// One part of text.
    pub fn text(uri: &str, mime_type: &str, text: &str) -> Self {
        Self::part(&serde_json::json!({"uri": uri, "mimeType": mime_type, "text": text}))
    }

    /// One part of bytes, given in base64.
    pub fn blob(uri: &str, mime_type: &str, base64: &str) -> Self {
        Self::part(&serde_json::json!({"uri": uri, "mimeType": mime_type, "blob": base64}))
    }

    fn part(part: &serde_json::Value) -> Self {
        Self { parts: vec![json::to_raw(part)], extra: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_that_follows_a_template_gives_its_variables() {
        let template = |pattern: &str| Template::new(pattern, "t", "");
        let one = template("test://template/{id}/data");
        assert_eq!(one.variables("test://template/7/data"), Some(vec![("id", "7")]));
        for other in ["test://template//data", "test://template/7/8/data", "test://template/7/dat", "x"] {
            assert_eq!(one.variables(other), None, "{other}");
        }
        let two = template("a:{x}-{y}");
        assert_eq!(two.variables("a:1-2"), Some(vec![("x", "1"), ("y", "2")]));
        assert_eq!(template("a:{x").variables("a:{x"), None, "a pattern that is none matches nothing");
        assert_eq!(template("a:b").variables("a:b"), Some(vec![]));
    }
}
