//! Known attacks on this kind of software, each tried with real processes against the built program.
//!
//! `docs/security.md` lists the attacks and names the test that tries each one. A test here must fail if its defence is
//! removed. Run them with `cargo xtask test -- --test attacks`.
#![cfg(unix)]

#[path = "../http/client.rs"]
#[allow(dead_code, reason = "the tests of the HTTP edge use more of it")]
mod client;
#[path = "../support/mod.rs"]
mod support;

mod a2e_agent;
mod a2e_over_http;
mod approval;
mod deaf_upstreams;
mod environment;
mod exhaustion;
mod files;
mod inputs;
mod invisible;
mod known;
mod leash;
mod memory;
mod names;
mod neighbours;
mod oauth;
mod pins;
mod policy_reach;
mod project_files;
mod redaction;
mod reload;
mod restarts;
mod retention;
mod revocation;
mod roots;
mod secrets;
mod serving;
mod state;

/// The table of bounds on the security page has the constants of the sources.
#[test]
fn the_security_page_names_bounds_that_hold() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/security.md")).expect("the page is there");
    let sources = sources(&root.join(".."));
    let is_constant = |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let bounds = page.split('`').filter_map(|word| word.split_once(" = ")).filter(|(name, _)| is_constant(name));
    let mut checked = 0;
    for (name, value) in bounds {
        let line = format!("const {name}: usize = {value};");
        assert!(sources.iter().any(|source| source.contains(&line)), "no source has `{line}`");
        checked += 1;
    }
    assert!(checked > 20, "the page names only {checked} bounds");
}

/// The security page promises nothing that no test holds.
#[test]
fn the_security_page_names_tests_that_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/security.md")).expect("the page is there");
    let mut named = 0;
    for (module, test) in page.split('`').filter_map(|word| word.split_once("::")) {
        let file = root.join("tests/attacks").join(format!("{module}.rs"));
        let source = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{module}::{test}: {error}"));
        assert!(source.contains(&format!("#[test]\nfn {test}() {{")), "there is no test {module}::{test}");
        named += 1;
    }
    assert!(named > 50, "the page names only {named} tests");
    // Tests of other crates stand without a module.
    let is_name = |word: &&str| {
        word.matches('_').count() >= 4 && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let elsewhere: Vec<_> = page.split('`').filter(is_name).collect();
    let sources = sources(&root.join(".."));
    for test in &elsewhere {
        assert!(sources.iter().any(|source| source.contains(&format!("fn {test}("))), "there is no test {test}");
    }
    assert!(elsewhere.len() > 10, "the page names only {} tests of other crates", elsewhere.len());
}

/// The Rust files below a folder.
fn sources(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there").flatten();
    let read = |path: std::path::PathBuf| match path.is_dir() {
        true => sources(&path),
        false if path.extension().is_some_and(|end| end == "rs") => std::fs::read_to_string(path).into_iter().collect(),
        false => Vec::new(),
    };
    entries.flat_map(|entry| read(entry.path())).collect()
}
