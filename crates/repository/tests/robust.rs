//! No file content breaks the tools: trees of the accuracy set with damage in every file still get answers.

mod common;

use std::path::{Path, PathBuf};

use gladhand_repository::{WorkflowInput, run_integration_workflow};

/// Bytes that are inserted as damage.
const JUNK: [&[u8]; 8] = [b"\0", b"\xFF\xFE", "é😀".as_bytes(), b"{[(", b")]}", b"\"\"\"", b"'\\", b"-- \r\r\n"];

/// Numbers that look random and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % most.max(1)
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the tree is there").flatten() {
        let path = entry.path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn damaged_files_are_answered_like_any_others() {
    let mut numbers = Numbers(7);
    for entry in std::fs::read_dir(common::folder("accuracy")).unwrap().flatten() {
        let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
        let tree = common::tree(&text);
        let mut paths = Vec::new();
        files(tree.path(), &mut paths);
        for _ in 0..4 {
            for path in &paths {
                let mut bytes = std::fs::read(path).unwrap();
                let at = numbers.below(bytes.len() + 1);
                match numbers.below(3) {
                    0 => bytes.truncate(at),
                    1 => drop(bytes.splice(at..at, JUNK[numbers.below(JUNK.len())].iter().copied())),
                    _ => bytes.drain(at..(at + 3).min(bytes.len())).for_each(drop),
                }
                std::fs::write(path, bytes).unwrap();
            }
            common::within(tree.path(), |setting| run_integration_workflow(&WorkflowInput::default(), setting))
                .unwrap();
        }
    }
}
