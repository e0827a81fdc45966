//! `order`: writes down which functions ordinary sessions touch, so that the linker puts them together.
//!
//! What is shipped, with its symbols, is run under valgrind through short sessions of every dialect, over stdio, over HTTP
//! and as a bridge. What was called goes into `crates/gladhand/order.txt`, which `crates/gladhand/build.rs` hands to the
//! linker. Worth repeating when the compiler changes (the names of functions carry its version) or a path was rewritten.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::{dist, shell};

/// Short sessions on stdin, one for each way in which a peer may open.
const SESSIONS: [&[&str]; 5] = [
    &[
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"order","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#,
    ],
    &[
        r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"order","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"order","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    ],
    &[
        r#"{"jsonrpc":"2.0","id":1,"method":"rpc.handshake","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"system.ping"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools.call","params":{"name":"echo","arguments":{"message":"hello"}}}"#,
    ],
    &[
        r#"{"type":"handshake/req","id":"1","agent_id":"order","token":"t","agent_caps":["tools"]}"#,
        r#"{"type":"tool/call/req","id":"2","tool_name":"echo","arguments":{"message":"hello"}}"#,
    ],
    &[r#"{"type":"handshake"}"#],
];

/// Makes the list.
pub(crate) fn run() -> Result<ExitCode> {
    let program = dist::build(&["-C", "strip=none"])?;
    let traced = Traced { program, folder: shell::target().join("order") };
    if traced.folder.exists() {
        std::fs::remove_dir_all(&traced.folder)?;
    }
    std::fs::create_dir_all(&traced.folder)?;
    // What the commonest session calls stands first and together, then what each of the others calls besides.
    let mut names = Vec::new();
    traced.stdio(&["serve"], SESSIONS[0], &mut names)?;
    traced.http(&mut names)?;
    for session in &SESSIONS[1..] {
        traced.stdio(&["serve"], session, &mut names)?;
    }
    let program = traced.program.to_string_lossy().into_owned();
    traced.stdio(&["bridge", "--", &program, "serve"], SESSIONS[0], &mut names)?;
    names.splice(..0, before_valgrind(&program)?);
    if names.is_empty() {
        bail!("nothing was seen: is this valgrind's callgrind?");
    }
    let list = shell::root().join("crates/gladhand/order.txt");
    std::fs::write(&list, names.iter().map(|name| format!("{name}\n")).collect::<String>())?;
    println!("{} functions are in {}", names.len(), list.display());
    Ok(ExitCode::SUCCESS)
}

/// The program under valgrind.
struct Traced {
    program: PathBuf,
    folder: PathBuf,
}

impl Traced {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("valgrind");
        let file = format!("--callgrind-out-file={}/%p.out", self.folder.display());
        command.args(["--quiet", "--tool=callgrind", "--demangle=no", &file]).arg(&self.program).args(arguments);
        // Nobody's configuration belongs to an ordinary session.
        command.current_dir(&self.folder).env("XDG_CONFIG_HOME", &self.folder).env("XDG_DATA_HOME", &self.folder);
        command
    }

    /// One session over stdio.
    fn stdio(&self, arguments: &[&str], session: &[&str], names: &mut Vec<String>) -> Result<()> {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("`cargo xtask order` needs valgrind")?;
        let (mut input, output) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        let mut answers = output.into_iter().flat_map(BufReader::lines);
        for line in session {
            let input = input.as_mut().context("no stdin")?;
            writeln!(input, "{line}")?;
            if line.contains("\"id\"") || line.contains("\"handshake\"") {
                answers.next().context("the session ended early")??;
            }
        }
        drop(input);
        child.wait()?;
        self.take_names(names)
    }

    /// Sessions of both eras over HTTP.
    fn http(&self, names: &mut Vec<String>) -> Result<()> {
        let mut child = self.command(&["serve", "--http", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn()?;
        let mut said = BufReader::new(child.stderr.take().context("no stderr")?).lines();
        let address = loop {
            let line = said.next().context("it does not listen")??;
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.trim_end_matches("/mcp").to_owned();
            }
        };
        let opened = post(&address, "", SESSIONS[0][0])?;
        let session = opened.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap_or_default();
        for line in &SESSIONS[0][1..] {
            post(&address, &format!("Mcp-Session-Id: {session}\r\n"), line)?;
        }
        let modern = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n";
        post(&address, modern, SESSIONS[1][1])?;
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        child.wait()?;
        self.take_names(names)
    }

    /// Adds what was called and is not known yet: names as the linker knows them.
    fn take_names(&self, names: &mut Vec<String>) -> Result<()> {
        let mut called = BTreeSet::new();
        for file in std::fs::read_dir(&self.folder)? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "out") {
                read_report(&path, &mut called)?;
                std::fs::remove_file(path)?;
            }
        }
        called.retain(|name| !names.contains(name));
        names.extend(called);
        Ok(())
    }
}

/// Adds the functions of a report that the linker can place by name. In a report a name is written once, and then goes by
/// its number.
fn read_report(report: &Path, names: &mut BTreeSet<String>) -> Result<()> {
    let text = std::fs::read_to_string(report)?;
    let mut known: HashMap<&str, &str> = HashMap::new();
    for line in text.lines() {
        let Some((what, rest)) = line.split_once("=(") else { continue };
        let Some((number, name)) = rest.split_once(')') else { continue };
        if !matches!(what, "fn" | "cfn") {
            continue;
        }
        if !name.is_empty() {
            // A recursion is counted behind an apostrophe.
            known.insert(number, name.trim().split('\'').next().unwrap_or_default());
        }
        let Some(name) = known.get(number) else { continue };
        // What the optimiser named itself is named otherwise next time.
        let is_named = !name.is_empty() && !name.contains(".llvm.") && !name.contains(|c: char| c.is_whitespace());
        if what == "fn" && is_named && !name.starts_with("0x") {
            names.insert((*name).to_owned());
            names.extend(on_newer_processors(name));
        }
    }
    Ok(())
}

/// What runs before anything can be traced: where a program begins, and what chooses the functions that fit the processor.
fn before_valgrind(program: &str) -> Result<Vec<String>> {
    let symbols = shell::output_of("nm", &["--defined-only", "--format=just-symbols", program]);
    let symbols = symbols.context("`cargo xtask order` needs nm")?;
    let is_early = |name: &&str| matches!(*name, "_start" | "__libc_start_main_impl") || name.ends_with("_ifunc");
    Ok(symbols.lines().filter(is_early).map(str::to_owned).collect())
}

/// The C library has functions for each kind of processor, and that of valgrind is an old one.
fn on_newer_processors(name: &str) -> Vec<String> {
    let newer = [("_avx2", "_evex"), ("_avx_", "_evex_"), ("_avx_", "_avx512_"), ("_sse2", "_evex")];
    newer.iter().filter(|(old, _)| name.contains(old)).map(|(old, new)| name.replace(old, new)).collect()
}

/// One exchange over HTTP; the answer with its headers, in small letters.
fn post(address: &str, headers: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.to_lowercase())
}
