//! Gradle builds. They are programs, so only what they say plainly is read: literal coordinates, plugins, included folders.

use super::{Manifest, Usage, toml_table};
use crate::tokens::{Kind, Lexis, Token, tokens};

pub(super) fn build(text: &str) -> Result<Manifest, String> {
    let mut manifest = Manifest { managers: vec!["gradle"], ..Manifest::default() };
    let tokens = tokens(text, Lexis::Braces);
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Word) {
        // `implementation 'g:a:v'`, `implementation("g:a:v")`, `implementation(platform("…"))`, `id 'x'`, `id("x")`.
        let Some(argument) = argument(&tokens[at + 1..]) else { continue };
        match (token.text, argument.text.split(':').collect::<Vec<_>>().as_slice()) {
            ("id", [plugin]) => manifest.depends(text, argument.at.start, plugin, None, Usage::Runtime),
            (configuration, [group, artifact, rest @ ..]) => {
                let Some(usage) = usage(configuration) else { continue };
                let name = format!("{group}:{artifact}");
                manifest.depends_as(text, argument.at.start, argument.text, name, rest.first().copied(), usage);
            }
            _ => {}
        }
    }
    Ok(manifest)
}

/// The literal that a word is followed by, in brackets or not.
fn argument<'t, 'a>(rest: &'t [Token<'a>]) -> Option<&'t Token<'a>> {
    rest.iter()
        .find(|token| !token.is("(") && !token.is("platform") && !token.is("enforcedPlatform"))
        .filter(|token| token.kind == Kind::Text)
}

fn usage(configuration: &str) -> Option<Usage> {
    let lower = configuration.to_ascii_lowercase();
    let known = [
        "implementation",
        "api",
        "compile",
        "runtimeonly",
        "compileonly",
        "annotationprocessor",
        "kapt",
        "ksp",
        "developmentonly",
    ];
    if !known.iter().any(|end| lower.ends_with(end)) {
        return None;
    }
    let aside = lower.starts_with("test")
        || lower.starts_with("androidtest")
        || lower.ends_with("processor")
        || lower == "developmentonly";
    Some(if aside { Usage::Development } else { Usage::Runtime })
}

/// `include 'api', ':services:stock'`.
pub(super) fn settings(text: &str) -> Result<Manifest, String> {
    let mut manifest = Manifest { managers: vec!["gradle"], ..Manifest::default() };
    let tokens = tokens(text, Lexis::Braces);
    for (at, _) in tokens.iter().enumerate().filter(|(_, token)| token.is("include")) {
        let list =
            tokens[at + 1..].iter().take_while(|token| token.kind == Kind::Text || token.is(",") || token.is("("));
        let folders = list
            .filter(|token| token.kind == Kind::Text)
            .map(|token| token.text.trim_start_matches(':').replace(':', "/"));
        manifest.workspace.extend(folders);
    }
    Ok(manifest)
}

/// The version catalog. Any build of the repository may use its entries.
pub(super) fn catalog(text: &str) -> Result<Manifest, String> {
    let table = toml_table(text)?;
    let mut manifest = Manifest { managers: vec!["gradle"], ..Manifest::default() };
    let entries = |key: &str| {
        table.get(key).and_then(toml::Value::as_table).into_iter().flatten().map(|(_, value)| value).collect::<Vec<_>>()
    };
    for library in entries("libraries") {
        let written = library.as_str().or_else(|| library.get("module")?.as_str());
        let name = match (written, library.get("group"), library.get("name")) {
            (Some(written), ..) => written.split(':').take(2).collect::<Vec<_>>().join(":"),
            (None, Some(group), Some(name)) => {
                format!("{}:{}", group.as_str().unwrap_or_default(), name.as_str().unwrap_or_default())
            }
            _ => continue,
        };
        let artifact = name.rsplit(':').next().unwrap_or_default().to_owned();
        manifest.depends_as(text, 0, &artifact, name, None, Usage::Optional);
    }
    for plugin in entries("plugins") {
        if let Some(id) = plugin.as_str().and_then(|id| id.split(':').next()).or_else(|| plugin.get("id")?.as_str()) {
            manifest.depends(text, 0, id, None, Usage::Optional);
        }
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read_and_comments_are_not() {
        let groovy = "plugins {\n  id 'org.springframework.boot' version '3.2.0'\n}\ndependencies {\n  // implementation 'io.quarkus:quarkus-core:3'\n  implementation 'org.springframework.boot:spring-boot-starter-web'\n  testImplementation \"junit:junit:4.13\"\n}\n";
        let kotlin = "plugins { id(\"org.springframework.boot\") }\ndependencies { implementation(platform(\"a:b:1\")); implementation(project(\":core\")); implementation(libs.x) }";
        let found = |text| -> Vec<_> {
            build(text).unwrap().dependencies.into_iter().map(|d| (d.name, d.usage, d.line)).collect()
        };
        assert_eq!(
            found(groovy),
            [
                ("org.springframework.boot".to_owned(), Usage::Runtime, 2),
                ("org.springframework.boot:spring-boot-starter-web".to_owned(), Usage::Runtime, 6),
                ("junit:junit".to_owned(), Usage::Development, 7),
            ]
        );
        assert_eq!(
            found(kotlin),
            [("org.springframework.boot".to_owned(), Usage::Runtime, 1), ("a:b".to_owned(), Usage::Runtime, 2)]
        );
        assert_eq!(
            settings("include 'api', ':services:stock'\ninclude(\":web\")").unwrap().workspace,
            ["api", "services/stock", "web"]
        );
    }
}
