//! Project files of .NET, packages.config and solutions.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::{Manifest, Usage, in_one_line};

/// Packages, referenced frameworks, and the SDK, which marks a project as a web application.
pub(super) fn project(text: &str) -> Result<Manifest, String> {
    let mut manifest = Manifest { managers: vec!["dotnet"], ..Manifest::default() };
    elements(text, |at, element| {
        let (name, versions) = match element.local_name().as_ref() {
            "Project" => (attribute(element, "Sdk"), None),
            "PackageReference" => (attribute(element, "Include"), attribute(element, "Version")),
            "FrameworkReference" => (attribute(element, "Include"), None),
            _ => return,
        };
        if let Some(name) = name {
            manifest.depends(text, at, &name, versions.as_deref(), Usage::Runtime);
        }
    })?;
    Ok(manifest)
}

pub(super) fn packages_config(text: &str) -> Result<Manifest, String> {
    let mut manifest = Manifest { managers: vec!["dotnet"], ..Manifest::default() };
    elements(text, |at, element| {
        if element.local_name().as_ref() == "package"
            && let Some(name) = attribute(element, "id")
        {
            manifest.depends(text, at, &name, attribute(element, "version").as_deref(), Usage::Runtime);
        }
    })?;
    Ok(manifest)
}

/// `Project("{type}") = "Name", "folder\Name.csproj", "{id}"`.
pub(super) fn solution(text: &str) -> Result<Manifest, String> {
    let lines = text.lines().filter(|line| line.trim_start().starts_with("Project("));
    let paths = lines.filter_map(|line| line.split('"').nth(5)).map(|path| path.replace('\\', "/"));
    let folders = paths.filter_map(|path| path.rsplit_once('/').map(|(folder, _)| folder.to_owned()));
    Ok(Manifest { managers: vec!["dotnet"], workspace: folders.collect(), ..Manifest::default() })
}

fn elements(text: &str, mut take: impl FnMut(usize, &BytesStart<'_>)) -> Result<(), String> {
    let mut reader = Reader::from_str(text);
    let mut depth = 0_usize;
    loop {
        let at = usize::try_from(reader.buffer_position()).unwrap_or(0);
        match reader.read_event().map_err(in_one_line)? {
            Event::Start(element) => {
                depth += 1;
                take(at, &element);
            }
            Event::Empty(element) => take(at, &element),
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Eof if depth == 0 => return Ok(()),
            Event::Eof => return Err("the document ends inside of an element".to_owned()),
            _ => {}
        }
    }
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = element.try_get_attribute(name).ok()??;
    Some(found.value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdk_and_the_packages_are_read() {
        let text = "<Project Sdk=\"Microsoft.NET.Sdk.Web\">\n  <ItemGroup>\n    <!-- <PackageReference Include=\"No\" /> -->\n    <PackageReference Include=\"Serilog\" Version=\"3.1\" />\n  </ItemGroup>\n</Project>";
        let found: Vec<_> =
            project(text).unwrap().dependencies.into_iter().map(|d| (d.name, d.requirement, d.line)).collect();
        assert_eq!(
            found,
            [("Microsoft.NET.Sdk.Web".to_owned(), None, 1), ("Serilog".to_owned(), Some("3.1".to_owned()), 4)]
        );
        let solution = solution("Project(\"{A}\") = \"Api\", \"src\\Api\\Api.csproj\", \"{B}\"\nEndProject\n").unwrap();
        assert_eq!(solution.workspace, ["src/Api"]);
    }
}
