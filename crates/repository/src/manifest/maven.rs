//! pom.xml.

use quick_xml::Reader;
use quick_xml::events::Event;

use super::{Manifest, Usage, in_one_line};

/// How deeply elements may be nested.
const DEEPEST: usize = 128;

pub(super) fn pom(text: &str) -> Result<Manifest, String> {
    let mut manifest = Manifest { managers: vec!["maven"], ..Manifest::default() };
    let mut reader = Reader::from_str(text);
    let mut path: Vec<String> = Vec::new();
    let mut entry = Entry::default();
    loop {
        let at = usize::try_from(reader.buffer_position()).unwrap_or(0);
        match reader.read_event().map_err(in_one_line)? {
            Event::Start(start) => {
                path.push(start.local_name().as_ref().to_owned());
                if path.len() > DEEPEST {
                    return Err("elements are nested too deeply".to_owned());
                }
                if opens_entry(&path) {
                    entry = Entry { at, ..Entry::default() };
                }
            }
            Event::Text(content) => {
                let value = content.trim().to_owned();
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                match path.as_slice() {
                    ["project", "artifactId"] => manifest.name = Some(value),
                    ["project", "modules", "module"] => manifest.workspace.push(value),
                    [.., "dependency" | "parent" | "plugin", "groupId"] => entry.group = value,
                    [.., "dependency" | "parent" | "plugin", "artifactId"] => entry.artifact = value,
                    [.., "dependency" | "parent" | "plugin", "version"] => entry.version = value,
                    [.., "dependency", "scope"] => entry.scope = value,
                    [.., "dependency", "optional"] => entry.optional = value == "true",
                    _ => {}
                }
            }
            Event::End(_) => {
                if opens_entry(&path) {
                    entry.add_to(&mut manifest, text, path.last().map(String::as_str));
                }
                path.pop();
            }
            Event::Eof if path.is_empty() => return Ok(manifest),
            Event::Eof => return Err("the document ends inside of an element".to_owned()),
            _ => {}
        }
    }
}

/// Managed dependencies only fix versions: a project that names one there does not use it.
fn opens_entry(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(
        path.as_slice(),
        ["project", "parent"] | ["project", "dependencies", "dependency"] | ["project", "build", "plugins", "plugin"]
    )
}

#[derive(Debug, Default)]
struct Entry {
    at: usize,
    group: String,
    artifact: String,
    version: String,
    scope: String,
    optional: bool,
}

impl Entry {
    fn add_to(&self, manifest: &mut Manifest, text: &str, kind: Option<&str>) {
        let usage = match (kind, self.scope.as_str(), self.optional) {
            (Some("plugin"), ..) | (_, "test", _) => Usage::Development,
            (_, "provided", _) => Usage::Peer,
            (_, _, true) => Usage::Optional,
            _ => Usage::Runtime,
        };
        let name = format!("{}:{}", self.group, self.artifact);
        manifest.depends_as(text, self.at, &self.artifact, name, Some(self.version.as_str()), usage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maven_parents_dependencies_and_modules_are_read_without_managed_ones() {
        let text = "<?xml version=\"1.0\"?>\n<project>\n<!-- <dependency>x</dependency> -->\n<parent><groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-parent</artifactId><version>3.2</version></parent>\n<artifactId>shop</artifactId>\n<modules><module>api</module></modules>\n<dependencyManagement><dependencies><dependency><groupId>io.quarkus</groupId><artifactId>quarkus-bom</artifactId></dependency></dependencies></dependencyManagement>\n<dependencies>\n<dependency>\n<groupId>junit</groupId>\n<artifactId>junit</artifactId><scope>test</scope></dependency></dependencies></project>";
        let manifest = pom(text).unwrap();
        let found: Vec<_> = manifest.dependencies.iter().map(|d| (d.name.as_str(), d.usage, d.line)).collect();
        assert_eq!(
            found,
            [
                ("org.springframework.boot:spring-boot-starter-parent", Usage::Runtime, 4),
                ("junit:junit", Usage::Development, 10)
            ]
        );
        assert_eq!((manifest.name.as_deref(), manifest.workspace.as_slice()), (Some("shop"), &["api".to_owned()][..]));
        assert!(pom("<project><a>").is_err());
    }
}
