//! The `gladhand` binary: parses the command line, starts logging, runs one command.

use std::process::ExitCode;

use gladhand::cli::{Cli, Command};
use gladhand::commands::{self, CommandError};
use gladhand::config::env;
use gladhand::exit::Exit;
use gladhand::logging::{self, LogChoice};
#[cfg(unix)]
use gladhand_process::leash;

fn main() -> ExitCode {
    #[cfg(feature = "local-model")]
    #[expect(unsafe_code, reason = "nothing else runs yet that could read the environment meanwhile")]
    // SAFETY: this is the first thing that this process does, and it has one thread.
    unsafe {
        gladhand_local_model::keep_to_one_thread();
    }
    #[cfg(unix)]
    if let Some(code) = leash::enable() {
        return code;
    }
    // Before anything can be said on stderr.
    logging::choose(std::env::args_os().skip(1));
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(misuse) => return commands::complain_of_usage(&misuse),
    };
    let audience = cli.audience;
    let choice = LogChoice {
        verbosity: i8::try_from(cli.global.verbose).unwrap_or(i8::MAX)
            - i8::try_from(cli.global.quiet).unwrap_or(i8::MAX),
        filter: std::env::var(env::LOG).ok(),
        is_one_answer: matches!(&cli.command, Command::Chat(args) if args.print.is_some()),
        format: cli.global.log_format,
    };
    let guard = match logging::start(&choice) {
        Ok(guard) => guard,
        Err(error) => return commands::complain(&CommandError::usage(error), audience),
    };
    // Through the log, which never blocks; the message itself may quote what a peer sent.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "something panicked; the call that caused it fails. Please report this");
    }));
    let ended = match cli.command {
        Command::Serve(args) => commands::serve::run(&args),
        Command::Bridge(args) => commands::bridge::run(&args),
        #[cfg(unix)]
        Command::Record(args) => commands::record::run(&args),
        Command::Console(args) => commands::console::run(&args),
        Command::Show(args) => commands::show::run(&args),
        #[cfg(unix)]
        Command::Tap(args) => commands::tap::run(&args),
        Command::Replay(args) => commands::replay::run(&args),
        Command::Call(args) => commands::call::run(args, cli.global.verbose),
        #[cfg(unix)]
        Command::Shell(args) => commands::shell::run(args, cli.global.verbose),
        Command::Chat(args) => commands::chat::run(&args),
        Command::Tools(args) => commands::list::tools(args, cli.global.verbose),
        Command::Resources(args) => commands::list::resources(args, cli.global.verbose),
        Command::Prompts(args) => commands::list::prompts(args, cli.global.verbose),
        Command::Policy(args) => commands::policy::run(&args),
        Command::Open(args) => commands::open::run(args, cli.global.verbose),
        Command::Probe(args) => commands::probe::run(&args, cli.global.verbose),
        Command::Check(args) => commands::check::run(&args, cli.global.verbose),
        Command::Loss(args) => commands::loss::run(&args, cli.global.verbose),
        Command::Config(args) => commands::config::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        #[cfg(unix)]
        Command::Ps(args) => commands::ps::run(&args),
        #[cfg(unix)]
        Command::Top(args) => commands::top::run(&args),
        Command::Repo(args) => commands::repo::run(&args),
        Command::Secret(args) => commands::secret::run(args),
        Command::Login(args) => commands::login::login(args),
        Command::Logout(args) => commands::login::logout(&args),
        Command::Completions { shell } => commands::manual::completions(shell),
        Command::Man { out } => commands::manual::man(out.as_deref()),
    };
    drop(guard);
    match ended {
        Ok(code) => code,
        Err(error) => commands::complain(&error, audience),
    }
}

// `Exit` is the only place where a status gets its number.
const _: () = assert!(Exit::Usage as u8 == 2, "clap ends with 2 for a wrong command line, and so must we");
