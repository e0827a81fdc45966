//! The pinned version of each installed peer.

use std::fs;

use serde_json::Value;

use crate::installed::{peers, scripts};

/// A package of the npm registry that is installed in a folder of the peers.
pub(crate) fn npm(name: &str, folder: &str, package: &str) -> String {
    let path = peers().join(folder).join("node_modules").join(package).join("package.json");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let package: Value = serde_json::from_str(&text).expect("a package is JSON");
    format!("{name} {}", package["version"].as_str().expect("a package has a version"))
}

/// A Python package that an environment of the peers pins.
pub(crate) fn python(name: &str, environment: &str, package: &str) -> String {
    let pins = fs::read_to_string(scripts().join("python").join(environment).with_extension("txt")).expect("pins");
    let version = pins.lines().find_map(|line| line.strip_prefix(package)?.strip_prefix("=="));
    format!("{name} {}", version.expect("the package is pinned"))
}

/// rmcp, as the matrix's own program pins it.
pub(crate) fn rmcp() -> String {
    let manifest = fs::read_to_string(scripts().join("rmcp-matrix/Cargo.toml")).expect("a manifest");
    let (_, rest) = manifest.split_once("rmcp = { version = \"=").expect("rmcp is pinned");
    let (version, _) = rest.split_once('"').expect("the version ends");
    format!("rmcp {version}")
}
