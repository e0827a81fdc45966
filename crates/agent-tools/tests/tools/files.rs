//! File tools, compared with the recordings.

use std::time::{Duration, Instant, SystemTime};

use gladhand_agent_tools::{Guarded, GuardedPath};
use serde_json::{Value, json};

use tokio_util::sync::CancellationToken;

use crate::{Said, Shop};

/// A call whose input names the folder as `<CWD>`.
async fn call(shop: &Shop, name: &str, input: Value) -> Said {
    let input = input.to_string().replace("<CWD>", shop.folder().to_str().unwrap());
    shop.call(name, serde_json::from_str(&input).unwrap()).await
}

fn fine(said: &Said) -> String {
    assert!(said.ok && said.error.is_none(), "{said:?}");
    serde_json::from_str(&said.written).unwrap()
}

fn wrong(said: &Said) -> &str {
    assert!(!said.ok);
    let error = said.error.as_deref().unwrap();
    assert_eq!(serde_json::from_str::<String>(&said.written).unwrap(), error);
    error
}

async fn recorded() -> Shop {
    let shop = Shop::open().await;
    shop.file("src/a.txt", "one\ntwo\nthree\n");
    shop.file(
        "src/b.py",
        "class A:\n    # note\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n",
    );
    shop
}

#[tokio::test]
async fn file_tools_answer_as_recorded() {
    let shop = recorded().await;
    let said = call(&shop, "list_dir", json!({"dir_path": "<CWD>"})).await;
    assert_eq!(fine(&said), "Absolute path: <CWD>\nsrc/\n  a.txt\n  b.py");
    let said = call(&shop, "list_dir", json!({"dir_path": "<CWD>", "offset": 2, "limit": 1, "depth": 1})).await;
    assert_eq!(wrong(&said), "offset exceeds directory entry count");
    let said = call(&shop, "read_file", json!({"file_path": "<CWD>/src/a.txt", "offset": 2, "limit": 1})).await;
    assert_eq!(fine(&said), "L2: two");
    let said = call(&shop, "read_file", json!({"file_path": "<CWD>/src/a.txt", "offset": 9})).await;
    assert_eq!(wrong(&said), "offset exceeds file length");
    let block =
        json!({"file_path": "<CWD>/src/b.py", "offset": 4, "mode": "indentation", "indentation": {"max_levels": 1}});
    assert_eq!(
        fine(&call(&shop, "read_file", block).await),
        "L2:     # note\nL3:     def f(self):\nL4:         return 1\nL5: \nL6:     def g(self):\nL7:         return 2"
    );
    let patch = "*** Begin Patch\n*** Update File: src/a.txt\n@@\n one\n-two\n+TWO\n three\n*** Add File: new/n.txt\n\
                 +hello\n*** Delete File: src/b.py\n*** End Patch";
    let said = call(&shop, "apply_patch", json!({"input": patch})).await;
    assert_eq!(
        fine(&said),
        "Success. Updated the following files:\nA <CWD>/new/n.txt\nM <CWD>/src/a.txt\nD <CWD>/src/b.py"
    );
    let patch = "*** Begin Patch\n*** Update File: src/a.txt\n@@\n-absent\n+x\n*** End Patch";
    let said = call(&shop, "apply_patch", json!({"input": patch})).await;
    assert_eq!(wrong(&said), "Failed to find expected lines in <CWD>/src/a.txt:\nabsent");
    let said = call(&shop, "apply_patch", json!({"input": "nonsense"})).await;
    assert_eq!(wrong(&said), "invalid patch: The first line of the patch must be '*** Begin Patch'");
    let said = call(&shop, "read_file", json!({"file_path": "<CWD>/src/a.txt"})).await;
    assert_eq!(fine(&said), "L1: one\nL2: TWO\nL3: three");
    let said = call(&shop, "grep_files", json!({"pattern": "one", "path": "missing-dir"})).await;
    assert!(wrong(&said).starts_with("unable to access `<CWD>/missing-dir`: "), "{said:?}");
    let said = call(&shop, "grep_files", json!({"pattern": " "})).await;
    assert_eq!(wrong(&said), "pattern must not be empty");
    let said = call(&shop, "read_file", json!({"file_path": "relative.txt"})).await;
    assert_eq!(wrong(&said), "file_path must be an absolute path");
    let said = call(&shop, "list_dir", json!({"dir_path": "/definitely/missing"})).await;
    assert!(wrong(&said).starts_with("failed to read directory: "), "{said:?}");
}

#[tokio::test]
async fn long_lines_are_cut_and_only_regular_files_are_read() {
    let shop = Shop::open().await;
    shop.file("long", &format!("{}\r\n{}\n\nlast", "😀".repeat(400), "y".repeat(100_000)));
    let said = call(&shop, "read_file", json!({"file_path": "<CWD>/long"})).await;
    assert_eq!(fine(&said), format!("L1: {}\nL2: {}\nL3: \nL4: last", "😀".repeat(250), "y".repeat(500)));
    let said = call(&shop, "read_file", json!({"file_path": "<CWD>"})).await;
    assert!(wrong(&said).contains("is not a regular file"));
    let said = call(&shop, "read_file", json!({"file_path": "/dev/zero"})).await;
    assert!(wrong(&said).contains("is not a regular file"));
    let said = call(&shop, "read_file", json!({"file_path": "<CWD>/long", "offset": 0})).await;
    assert!(wrong(&said).starts_with("offset must be"));
    shop.file("empty", "");
    let said = call(&shop, "read_file", json!({"file_path": "<CWD>/empty"})).await;
    assert_eq!(wrong(&said), "offset exceeds file length");
}

#[tokio::test]
async fn directories_are_listed_in_pieces_with_their_entries() {
    let shop = Shop::open().await;
    for path in ["a/x", "a/deep/er", "a-b", "c"] {
        shop.file(path, "");
    }
    std::os::unix::fs::symlink("c", shop.folder().join("link")).unwrap();
    let said = call(&shop, "list_dir", json!({"dir_path": "<CWD>"})).await;
    assert_eq!(fine(&said), "Absolute path: <CWD>\na/\n  deep/\n  x\na-b\nc\nlink@");
    let said = call(&shop, "list_dir", json!({"dir_path": "<CWD>", "offset": 2, "limit": 2, "depth": 9})).await;
    assert_eq!(fine(&said), "Absolute path: <CWD>\n  deep/\n    er\nMore than 2 entries found");
}

#[tokio::test]
async fn files_are_found_by_content_and_by_path_newest_first() {
    let shop = Shop::open().await;
    let now = SystemTime::now();
    for (age, path) in [(3, "old.rs"), (1, "src/new.rs"), (2, "src/mid.txt"), (9, "ignored.rs"), (5, "bin.rs")] {
        let text = if path == "bin.rs" { "\0fn needle" } else { "x\nfn needle() {}\n" };
        let file = std::fs::File::options().write(true).open(shop.file(path, text)).unwrap();
        file.set_modified(now - Duration::from_secs(age * 60)).unwrap();
    }
    shop.file(".ignore", "ignored.rs\n");
    let said = call(&shop, "grep_files", json!({"pattern": "^fn nee.le"})).await;
    assert_eq!(fine(&said), "<CWD>/src/new.rs\n<CWD>/src/mid.txt\n<CWD>/old.rs");
    let said = call(&shop, "grep_files", json!({"pattern": "needle", "include": "*.{rs,py}", "limit": 1})).await;
    assert_eq!(fine(&said), "<CWD>/src/new.rs");
    let said = call(&shop, "grep_files", json!({"pattern": "needle", "path": "src/mid.txt"})).await;
    assert_eq!(fine(&said), "<CWD>/src/mid.txt");
    let said = call(&shop, "grep_files", json!({"pattern": "nowhere"})).await;
    assert_eq!((said.ok, said.written.as_str(), said.error), (false, "\"No matches found.\"", None));
    let said = call(&shop, "grep_files", json!({"pattern": "("})).await;
    assert!(wrong(&said).starts_with("pattern is not a regular expression"));

    let said = call(&shop, "glob_files", json!({"pattern": "**/*.rs"})).await;
    assert_eq!(fine(&said), "<CWD>/src/new.rs\n<CWD>/old.rs\n<CWD>/bin.rs");
    let said = call(&shop, "glob_files", json!({"pattern": "*.txt"})).await;
    assert_eq!(said.written, "\"No matches found.\"", "a star stays in its directory");
}

#[tokio::test]
async fn a_patch_moves_files_and_keeps_the_sections_before_a_failure() {
    let shop = recorded().await;
    let script = shop.file("run.sh", "echo 1\n");
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o750);
    std::fs::set_permissions(&script, mode).unwrap();
    let patch = "*** Begin Patch\n*** Update File: run.sh\n@@\n-echo 1\n+echo 2\n*** Update File: src/a.txt\n\
                 *** Move to: moved/a.txt\n@@ one\n+one and a half\n*** Delete File: missing\n*** Add File: never\n+x\n\
                 *** End Patch";
    let said = call(&shop, "apply_patch", json!({"input": patch})).await;
    assert!(wrong(&said).starts_with("Failed to delete file"), "{said:?}");
    let read = |path: &str| std::fs::read_to_string(shop.folder().join(path)).ok();
    assert_eq!(read("run.sh").as_deref(), Some("echo 2\n"));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&script).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o750);
    assert_eq!(read("moved/a.txt").as_deref(), Some("one\none and a half\ntwo\nthree\n"));
    assert_eq!((read("src/a.txt"), read("never")), (None, None));
}

#[tokio::test]
async fn a_patch_changes_no_file_that_is_too_large() {
    let shop = recorded().await;
    let patch = "*** Begin Patch\n*** Update File: long\n@@\n-first\n+second\n*** End Patch";
    for (bytes, fits) in [(16 << 20, true), ((16 << 20) + 1, false)] {
        let text = format!("first\n{}", "x".repeat(bytes - "first\n".len()));
        let file = shop.file("long", &text);
        let said = call(&shop, "apply_patch", json!({"input": patch})).await;
        assert_eq!(said.ok, fits, "{bytes} bytes");
        let begins = std::fs::read_to_string(&file).unwrap().lines().next().map(str::to_owned);
        assert_eq!(begins.as_deref(), Some(if fits { "second" } else { "first" }));
        if !fits {
            assert!(wrong(&said).contains("has more than 16 MiB"), "{bytes} bytes");
        }
    }
}

#[tokio::test]
async fn file_tools_stay_inside_the_roots() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "needle").unwrap();
    let inside = tempfile::tempdir().unwrap();
    let root = inside.path().canonicalize().unwrap();
    std::fs::write(root.join("open"), "needle").unwrap();
    std::os::unix::fs::symlink(outside.path(), root.join("way-out")).unwrap();
    let shop = Shop::with(|settings| settings.roots = vec![root.clone()]).await;

    let said = shop.call("read_file", json!({"file_path": root.join("open")})).await;
    assert_eq!(fine(&said), "L1: needle");
    let patch = |path: &str| json!({"input": format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch")});
    for (tool, input) in [
        ("read_file", json!({"file_path": outside.path().join("secret")})),
        ("read_file", json!({"file_path": root.join("way-out/secret")})),
        ("list_dir", json!({"dir_path": root.join("way-out")})),
        ("list_dir", json!({"dir_path": root.join("..")})),
        ("grep_files", json!({"pattern": "needle", "path": outside.path()})),
        ("glob_files", json!({"pattern": "*", "path": outside.path()})),
        ("apply_patch", patch(root.join("way-out/new").to_str().unwrap())),
        ("apply_patch", patch("../relative")),
    ] {
        let said = shop.call(tool, input.clone()).await;
        assert!(wrong(&said).ends_with("is outside of the workspace and was not approved"), "{tool} {input}: {said:?}");
    }
    let said = shop.call("grep_files", json!({"pattern": "needle", "path": root})).await;
    assert_eq!(fine(&said), root.join("open").to_str().unwrap(), "links are not followed");
}

/// A home around the workspace, with a key, a hard link to the key, and secret files inside the workspace.
async fn with_secrets() -> Shop {
    let shop = Shop::open().await;
    let home = shop.home.path();
    std::fs::create_dir(home.join(".ssh")).unwrap();
    std::fs::write(home.join(".ssh/key"), "needle").unwrap();
    std::fs::write(home.join("notes"), "needle").unwrap();
    std::fs::hard_link(home.join(".ssh/key"), shop.folder().join("twin")).unwrap();
    shop.file("plain", "needle");
    shop.file("server.pem", "needle");
    shop.file("deep/.ssh/key", "needle");
    shop
}

#[tokio::test]
async fn searches_and_lists_skip_secrets() {
    let shop = with_secrets().await;
    let said = call(&shop, "grep_files", json!({"pattern": "needle"})).await;
    assert_eq!(fine(&said), "<CWD>/plain");
    let said = call(&shop, "glob_files", json!({"pattern": "**/key"})).await;
    assert_eq!(said.output, "No matches found.");
    let said = call(&shop, "list_dir", json!({"dir_path": "<CWD>/deep", "depth": 5})).await;
    assert_eq!(fine(&said), "Absolute path: <CWD>/deep\n.ssh/");
}

#[tokio::test]
async fn a_place_is_read_once_it_is_approved() {
    let shop = with_secrets().await;
    let home = shop.home.path().canonicalize().unwrap();
    let place = |path: &str, why| GuardedPath { path: home.join(path), why };
    let patch = "*** Begin Patch\n*** Update File: ../.ssh/key\n*** Move to: copy\n@@\n-needle\n+x\n*** End Patch";
    for (tool, input, reached) in [
        ("read_file", json!({"file_path": "<CWD>/plain"}), vec![]),
        ("read_file", json!({"file_path": "<CWD>/../notes"}), vec![place("notes", Guarded::Outside)]),
        ("read_file", json!({"file_path": "<CWD>/twin"}), vec![place("cwd/twin", Guarded::Secret)]),
        ("read_file", json!({"file_path": "<CWD>/server.pem"}), vec![place("cwd/server.pem", Guarded::Secret)]),
        ("list_dir", json!({"dir_path": "<CWD>/../.ssh"}), vec![place(".ssh", Guarded::Secret)]),
        ("grep_files", json!({"pattern": "needle", "path": ".."}), vec![place("", Guarded::Outside)]),
        ("glob_files", json!({"pattern": "*", "path": "../.ssh"}), vec![place(".ssh", Guarded::Secret)]),
        ("apply_patch", json!({"input": patch}), vec![place(".ssh/key", Guarded::Secret)]),
        ("bash", json!({"command": "true"}), vec![]),
    ] {
        let (said, reaches) = shop.approving(tool, input.clone()).await;
        assert_eq!(reaches, reached, "{tool} {input}");
        assert!(said.ok, "{tool} {input}: {said:?}");
        let is_secret = tool == "grep_files" && said.output.to_string().contains(".ssh");
        assert!(!is_secret, "approval of a folder does not cover the secrets in it: {said:?}");
    }
}

#[tokio::test]
async fn a_link_outside_of_the_workspace_is_removed_only_with_approval() {
    let shop = Shop::open().await;
    let outside = tempfile::tempdir().unwrap();
    let link = outside.path().canonicalize().unwrap().join("link");
    let name = link.display();
    let moves = format!("*** Update File: {name}\n*** Move to: moved\n@@\n-needle\n+x");
    for section in [format!("*** Delete File: {name}"), moves] {
        let plain = shop.file("plain", "needle\n");
        std::os::unix::fs::symlink(&plain, &link).unwrap();
        let input = json!({"input": format!("*** Begin Patch\n{section}\n*** End Patch")});
        let said = shop.call("apply_patch", input.clone()).await;
        assert_eq!(wrong(&said), format!("{name} is outside of the workspace and was not approved"));
        assert!(link.is_symlink() && !shop.folder().join("moved").exists(), "{section}");
        let (said, reached) = shop.approving("apply_patch", input).await;
        assert_eq!(reached, [GuardedPath { path: link.clone(), why: Guarded::Outside }], "{section}");
        assert!(said.ok && !link.is_symlink() && plain.exists(), "{section}: {said:?}");
    }
}

#[tokio::test]
async fn an_endless_ignore_file_is_not_read() {
    let shop = Shop::open().await;
    std::fs::create_dir(shop.folder().join("deep")).unwrap();
    std::fs::write(shop.folder().join("found.txt"), "needle").unwrap();
    std::os::unix::fs::symlink("/dev/zero", shop.folder().join("deep/.gitignore")).unwrap();
    for endless in ["deep/.ignore", ".ignore"] {
        std::os::unix::fs::symlink("/dev/zero", shop.folder().join(endless)).unwrap();
        let said = call(&shop, "grep_files", json!({"pattern": "needle"})).await;
        assert_eq!(fine(&said), "<CWD>/found.txt");
    }
}

/// Runs a call that is cancelled after a while. Returns the result and the time from the cancellation to the end.
async fn stopped(shop: &Shop, name: &str, input: Value) -> (Said, Duration) {
    let cancel = CancellationToken::new();
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel();
        Instant::now()
    };
    let (said, at) = tokio::join!(shop.call_for("session", name, input, &cancel), stopping);
    (said, at.elapsed())
}

#[tokio::test]
async fn a_cancelled_search_ends_soon_for_any_pattern_and_line() {
    let shop = Shop::open().await;
    shop.file("line", &"ab".repeat(8 << 20));
    // As many states as fit, all of them active at each byte. A short match must be possible, otherwise no piece would
    // be searched.
    for pattern in [r"a(?:a?b?){9000}[^ab\n]", r"a(?:a?b?){2000}[^ab\n]"] {
        let (said, took) = stopped(&shop, "grep_files", json!({"pattern": pattern})).await;
        assert_eq!(said.error.as_deref(), Some("the search was stopped"), "{pattern}");
        // About half a second on an idle machine. The whole line would take minutes.
        assert!(took < Duration::from_secs(10), "{pattern}: {took:?}");
    }
}

#[tokio::test]
async fn a_pattern_that_needs_much_memory_is_refused() {
    let shop = Shop::open().await;
    shop.file("line", "ab");
    let groups = "(a)".repeat(60);
    for (pattern, why) in [
        ("a[ab]{200000}c", "exceeds size limit"),
        (r"\w{1000}", "exceeds size limit"),
        (&groups, "more than 50 groups"),
        (&"a".repeat(20_000), "longer than 16384 bytes"),
    ] {
        let said = call(&shop, "grep_files", json!({"pattern": pattern})).await;
        assert!(wrong(&said).contains(why), "{said:?}");
    }
    let said = call(&shop, "grep_files", json!({"pattern": r"\w+(\s\w{1,20})?|\d{4}-\d\d|(?i)straße|a"})).await;
    assert_eq!(fine(&said), "<CWD>/line");
}

#[tokio::test]
async fn long_lines_are_searched_in_pieces() {
    let shop = Shop::open().await;
    let long = |text: &str| format!("{}{text}", "x".repeat(1 << 20));
    shop.file("long", &long("needle"));
    let wide: Vec<u8> = "\u{feff}a\nneedle\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(shop.folder().join("wide"), wide).unwrap();
    let said = call(&shop, "grep_files", json!({"pattern": "needle"})).await;
    assert_eq!(fine(&said).lines().count(), 2, "{said:?}");
    let said = call(&shop, "grep_files", json!({"pattern": "^needle$"})).await;
    assert_eq!(fine(&said), "<CWD>/wide");
}

#[tokio::test]
async fn a_deep_tree_is_listed_up_to_a_limit_and_a_list_can_be_cancelled() {
    let shop = Shop::open().await;
    let deep: String = (0..100).map(|_| "d/").collect();
    shop.file(&format!("{deep}end"), "");
    let said = call(&shop, "list_dir", json!({"dir_path": "<CWD>", "depth": 5000, "limit": 1_000_000})).await;
    assert_eq!(fine(&said).lines().count(), 1 + 64, "{said:?}");
    let cancel = CancellationToken::new();
    cancel.cancel();
    let said = shop.call_for("session", "list_dir", json!({"dir_path": shop.folder()}), &cancel).await;
    assert_eq!(wrong(&said), "the list was stopped");
}
