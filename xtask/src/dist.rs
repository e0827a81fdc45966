//! `cargo xtask dist`: builds the shipped program, one file that needs only the kernel of the system.
//!
//! It starts in six tenths of the time, because no libraries are searched and no addresses are relocated. In return,
//! the address of the code is the same in every run. The heap, the stack and mappings still have random addresses. An
//! ordinary `cargo build --release` keeps random addresses for the code too, and needs the C library of the system.
//!
//! The program is compiled and linked for ordinary sessions (`profile.rs`, `order.rs`). Their records are kept
//! below `target` until a source file or the compiler changes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::shell::{self, Compiler};
use crate::{order, profile};

const HINT: &str = "the static C library is needed too: libc6-dev or glibc-static contains it";
/// The separator of flags in the variable that cargo reads them from.
const SEPARATOR: &str = "\u{1f}";
/// The variable that names the list of functions for `crates/gladhand/build.rs`.
const ORDER_FILE: &str = "GLADHAND_ORDER_FILE";

/// Builds the program, and prints its path.
pub(crate) fn run() -> Result<ExitCode> {
    let program = build()?;
    let bytes = std::fs::metadata(&program)?.len();
    println!("{}", program.display());
    eprintln!("dist: {:.1} MiB", bytes as f64 / f64::from(1 << 20));
    Ok(ExitCode::SUCCESS)
}

/// Builds the program for ordinary sessions, as far as the tools for that are installed.
pub(crate) fn build() -> Result<PathBuf> {
    let compiler = Compiler::installed()?;
    let cache = Cache::open(&compiler)?;
    let mut build = Build { compiler: &compiler, everywhere: Vec::new(), order: None, keeps_symbols: false };
    match cache.get("counts.profdata", |path| profile::record(&build, path))? {
        Some(counts) => build.everywhere.push(format!("-Cprofile-use={}", counts.display())),
        None => eprintln!("dist: without counts of what runs often, the program is a little slower"),
    }
    build.order = cache.get("order.txt", |path| order::record(&build, path))?;
    if build.order.is_none() {
        eprintln!("dist: without a list of what runs first, the program needs more memory");
    }
    build.run()
}

/// How the program is built.
#[derive(Clone)]
pub(crate) struct Build<'a> {
    pub(crate) compiler: &'a Compiler,
    /// Flags of the compiler for all crates.
    pub(crate) everywhere: Vec<String>,
    /// The list of functions that the linker places first.
    pub(crate) order: Option<PathBuf>,
    pub(crate) keeps_symbols: bool,
}

impl Build<'_> {
    /// Builds the program, and returns its path.
    pub(crate) fn run(&self) -> Result<PathBuf> {
        let mut command = shell::cargo(&["rustc", "--profile", "dist", "--package", "gladhand", "--bin", "gladhand"]);
        // With a named target, the flags for all crates do not apply to build scripts and macros.
        command.args(["--target", &self.compiler.host, "--"]);
        if cfg!(target_os = "linux") {
            command.args(["-C", "target-feature=+crt-static", "-C", "relocation-model=static"]);
        }
        if self.keeps_symbols {
            command.args(["-C", "strip=none"]);
        }
        if !self.everywhere.is_empty() {
            command.env("CARGO_ENCODED_RUSTFLAGS", self.everywhere.join(SEPARATOR));
        }
        match &self.order {
            Some(order) => command.env(ORDER_FILE, order),
            None => command.env_remove(ORDER_FILE),
        };
        shell::run(&mut command, HINT)?;
        let program = Path::new("dist").join(format!("gladhand{}", std::env::consts::EXE_SUFFIX));
        let (made, shipped) =
            (shell::target().join(&self.compiler.host).join(&program), shell::target().join(&program));
        put(&made, &shipped).with_context(|| format!("could not put {} at {}", made.display(), shipped.display()))?;
        Ok(shipped)
    }
}

/// Replaces a program in one step. A running process keeps the old one.
fn put(made: &Path, shipped: &Path) -> std::io::Result<()> {
    let new = shipped.with_extension("new");
    if let Some(folder) = shipped.parent() {
        std::fs::create_dir_all(folder)?;
    }
    if new.exists() {
        std::fs::remove_file(&new)?;
    }
    // A link to the same file: the system keeps a copy in memory in larger pieces, and a start reads more than it needs.
    std::fs::hard_link(made, &new).or_else(|_| std::fs::copy(made, &new).map(drop))?;
    std::fs::rename(&new, shipped)?;
    // A rename to a link of the same file leaves both names.
    if new.exists() { std::fs::remove_file(&new) } else { Ok(()) }
}

/// The records of ordinary sessions for these sources and this compiler.
struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Opens the folder for the present sources, and removes those for others.
    fn open(compiler: &Compiler) -> Result<Self> {
        let all = shell::target().join("dist-records");
        let name = format!("{:016x}", fingerprint(&shell::root(), compiler)?);
        std::fs::create_dir_all(all.join(&name)).with_context(|| format!("could not make {}", all.display()))?;
        for other in std::fs::read_dir(&all)? {
            let other = other?;
            if other.file_name() != name.as_str() {
                std::fs::remove_dir_all(other.path())?;
            }
        }
        Ok(Self { folder: all.join(name) })
    }

    /// The file with this name. If it does not exist, `record` writes it, or returns false if it cannot.
    fn get(&self, name: &str, record: impl FnOnce(&Path) -> Result<bool>) -> Result<Option<PathBuf>> {
        let path = self.folder.join(name);
        if path.is_file() {
            return Ok(Some(path));
        }
        // An interrupted recording leaves no file with the final name.
        let unfinished = self.folder.join(format!("unfinished-{name}"));
        if !record(&unfinished)? {
            return Ok(None);
        }
        std::fs::rename(&unfinished, &path)?;
        Ok(Some(path))
    }
}

/// A number that differs when the compiler, a source file of the program or the recorded sessions differ.
fn fingerprint(root: &Path, compiler: &Compiler) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    (&compiler.release, &compiler.host).hash(&mut hasher);
    for file in ["Cargo.toml", "Cargo.lock", "xtask/src/training.rs"] {
        add_file(&root.join(file), &mut hasher)?;
    }
    add_folder(&root.join("crates"), &mut hasher)?;
    Ok(hasher.finish())
}

fn add_folder(folder: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    let read = || format!("could not read {}", folder.display());
    let entries: std::io::Result<Vec<_>> = std::fs::read_dir(folder).with_context(read)?.collect();
    let mut paths: Vec<_> = entries.with_context(read)?.iter().map(std::fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        let is_only_for_tests = ["tests", "examples", "benches"].iter().any(|name| path.ends_with(name));
        if path.is_file() {
            add_file(&path, hasher)?;
        } else if path.is_dir() && !is_only_for_tests {
            add_folder(&path, hasher)?;
        }
    }
    Ok(())
}

fn add_file(path: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    let bytes = std::fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
    (path, bytes).hash(hasher);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiler(release: &str) -> Compiler {
        Compiler { release: release.to_owned(), host: "host".to_owned(), llvm: 1, folder: String::new() }
    }

    #[test]
    fn a_record_belongs_to_one_compiler_and_one_state_of_the_sources() {
        let root = std::env::temp_dir().join(format!("dist-fingerprint-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for file in ["Cargo.toml", "Cargo.lock", "xtask/src/training.rs", "crates/a/src/lib.rs", "crates/a/tests/t.rs"]
        {
            write(file, "old");
        }
        let now = || fingerprint(&root, &compiler("1")).unwrap();
        let first = now();
        assert_eq!(now(), first);
        assert_ne!(fingerprint(&root, &compiler("2")).unwrap(), first);
        write("crates/a/tests/t.rs", "new");
        assert_eq!(now(), first);
        for file in ["Cargo.lock", "xtask/src/training.rs", "crates/a/src/lib.rs", "crates/a/src/more.rs"] {
            let before = now();
            write(file, "new");
            assert_ne!(now(), before, "{file}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_record_is_made_once_and_an_unfinished_one_is_not_used() {
        let folder = std::env::temp_dir().join(format!("dist-cache-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let cache = Cache { folder: folder.clone() };
        let write = |path: &Path| std::fs::write(path, "record").map_err(anyhow::Error::from);
        assert!(cache.get("order.txt", |path| write(path).and_then(|()| anyhow::bail!("interrupted"))).is_err());
        assert_eq!(cache.get("order.txt", |_| Ok(false)).unwrap(), None);
        let path = cache.get("order.txt", |path| write(path).map(|()| true)).unwrap();
        assert_eq!(path, Some(folder.join("order.txt")));
        assert_eq!(cache.get("order.txt", |_| anyhow::bail!("recorded again")).unwrap(), path);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
