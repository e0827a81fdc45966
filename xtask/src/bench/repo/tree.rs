//! A tree of 20,000 files: 200 packages in four languages, each with a manifest, a page of text and sources.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::words::{folder, name, prose};

const PACKAGES: usize = 200;
const FILES_OF_EACH: usize = 100;
/// How many files there are.
pub(super) const FILES: usize = PACKAGES * FILES_OF_EACH;
/// How many of them are sources: all but a manifest and a page in each package.
pub(super) const SOURCES: usize = PACKAGES * (FILES_OF_EACH - 2);
const FUNCTIONS: usize = 8;

/// How packages of one language look. `{}` stands for a name.
struct Language {
    manifest: (&'static str, &'static str),
    extension: &'static str,
    imports: &'static str,
    function: &'static str,
}

const LANGUAGES: [Language; 4] = [
    Language {
        manifest: ("package.json", r#"{"name":"{}","version":"1.0.0","dependencies":{"express":"^4.19.0"}}"#),
        extension: "ts",
        imports: "import { readFile } from \"node:fs/promises\";\n",
        function: "\nexport async function {}(path: string): Promise<number> {\n  const text = await readFile(path, \"utf8\");\n  return text.length;\n}\n",
    },
    Language {
        manifest: (
            "pyproject.toml",
            "[project]\nname = \"{}\"\nversion = \"1.0.0\"\ndependencies = [\"fastapi>=0.110\"]\n",
        ),
        extension: "py",
        imports: "import json\nfrom pathlib import Path\n",
        function: "\n\ndef {}(path: str) -> int:\n    text = Path(path).read_text()\n    return len(json.loads(text))\n",
    },
    Language {
        manifest: ("Cargo.toml", "[package]\nname = \"{}\"\nversion = \"1.0.0\"\n\n[dependencies]\naxum = \"0.8\"\n"),
        extension: "rs",
        imports: "use std::path::Path;\n",
        function: "\npub fn {}(path: &Path) -> std::io::Result<usize> {\n    Ok(std::fs::read_to_string(path)?.len())\n}\n",
    },
    Language {
        manifest: ("go.mod", "module example.com/{}\n\ngo 1.22\n\nrequire github.com/gin-gonic/gin v1.10.0\n"),
        extension: "go",
        imports: "package main\n\nimport \"os\"\n",
        function: "\nfunc {}(path string) (int, error) {\n\ttext, err := os.ReadFile(path)\n\treturn len(text), err\n}\n",
    },
];

/// The tree, made if it is not there.
pub(super) fn make(scratch: &Path) -> Result<PathBuf> {
    folder(scratch.join("tree"), "1", |root| {
        // A work tree of its own: the rules of the one around it do not count.
        fs::create_dir(root.join(".git"))?;
        (0..PACKAGES).try_for_each(|number| package(root, number))
    })
}

fn package(root: &Path, number: usize) -> std::io::Result<()> {
    let language = &LANGUAGES[number % LANGUAGES.len()];
    let package = root.join(format!("packages/{}", name(number)));
    let (manifest, text) = language.manifest;
    for part in 0..10 {
        fs::create_dir_all(package.join(format!("src/part{part}")))?;
    }
    fs::write(package.join(manifest), text.replace("{}", &name(number)))?;
    fs::write(package.join("README.md"), format!("# {}\n\n{}\n", name(number), prose(number, 60)))?;
    for file in 0..FILES_OF_EACH - 2 {
        let path = format!("src/part{}/{}.{}", file % 10, name(file), language.extension);
        fs::write(package.join(path), source(language, number * FILES_OF_EACH + file))?;
    }
    Ok(())
}

fn source(language: &Language, seed: usize) -> String {
    let mut text = language.imports.to_owned();
    for function in 0..FUNCTIONS {
        // Writing to a String cannot fail.
        let _ = write!(text, "{}", language.function.replace("{}", &name(seed + function * 97)));
    }
    text
}
