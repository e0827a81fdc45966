//! The signal dispositions and the signal mask of started programs.
//!
//! A process inherits ignored and blocked signals. A shell starts background jobs with SIGINT ignored, and `nohup` ignores
//! SIGHUP. A program that inherits this from us could not be interrupted. The standard library resets only SIGPIPE.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The highest signal number of the supported systems.
const HIGHEST: i32 = 64;

/// Starts the program with the default action for every signal, and with no signal blocked. Our own settings do not change.
pub(crate) fn reset(command: &mut Command) {
    #[expect(unsafe_code, reason = "dispositions of a child can be changed only between fork and exec")]
    // SAFETY: the three functions are async-signal-safe, and neither allocate nor lock. `sigemptyset` initialises the set.
    unsafe {
        command.pre_exec(|| {
            for signal in 1..=HIGHEST {
                // Fails for SIGKILL and SIGSTOP, which always have their default action, and for reserved numbers.
                libc::signal(signal, libc::SIG_DFL);
            }
            let mut none = MaybeUninit::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            match libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Read as _;
    use std::os::fd::OwnedFd;
    use std::process::Command;

    use crate::child::ChildPeer;
    use crate::starting::{Channels, Environment, Family, Program, Starter as _};
    use crate::surroundings::Surroundings;

    /// Shows its own signals. A shell would not do, because some shells unblock all signals at their start.
    const COMMAND: [&str; 3] = ["grep", "-E", "^Sig(Blk|Ign):"];
    const STATUS: &str = "/proc/self/status";

    /// The signals in a mask of `/proc`, without the two that the C library keeps for itself.
    fn signals(mask: &str) -> u64 {
        u64::from_str_radix(mask.trim(), 16).expect("a mask") & !(0b11 << 31)
    }

    fn are_default(status: &str) -> bool {
        let masks: Vec<_> = status.lines().filter_map(|line| line.split_once(':')).collect();
        masks.len() == 2 && masks.iter().all(|(_, mask)| signals(mask) == 0)
    }

    /// Set in the process that the test starts. Threads share dispositions, so the test needs a process of its own.
    const INNER: &str = "GLADHAND_TEST_WITH_IGNORED_SIGNALS";

    #[tokio::test]
    async fn programs_without_a_leash_start_with_default_signals() {
        if std::env::var_os(INNER).is_some() {
            return starts_with_defaults().await;
        }
        let test = "signals::tests::programs_without_a_leash_start_with_default_signals";
        let mut command = Command::new("env");
        command.args(["--ignore-signal=HUP,INT,QUIT,TERM,TSTP,USR1", "--block-signal=INT,TERM,USR2"]);
        command.arg(std::env::current_exe().unwrap()).args(["--exact", test]).env(INNER, "1");
        let output = command.output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
    }

    async fn starts_with_defaults() {
        let ours = std::fs::read_to_string("/proc/self/status").expect("it can be read");
        let ignored = ours.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
        assert_eq!(signals(ignored) & 0b11, 0b11, "this process ignores SIGHUP and SIGINT: {ours}");
        let (mut stdout, theirs) = std::io::pipe().expect("a pipe");
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
        let environment = Environment::from([("PATH".into(), std::env::var_os("PATH").expect("it is set"))]);
        let [file, arguments @ ..] = COMMAND;
        let arguments = [arguments[0].into(), arguments[1].into(), STATUS.into()];
        let program = Program { file: file.as_ref(), arguments: &arguments, folder: None, environment: &environment };
        let held = Family.start(program, Channels::Three([null(), theirs.into(), null()])).await.expect("it starts");
        assert!(held.ended().await.expect("it ends").success());
        let mut shown = String::new();
        stdout.read_to_string(&mut shown).expect("text");
        assert!(are_default(&shown), "{shown}");
        let command: Vec<_> = COMMAND.iter().chain([&STATUS]).map(ToString::to_string).collect();
        let mut child = ChildPeer::start(&command, &Surroundings::default(), &[], |_| {}).await.expect("it starts");
        let mut shown = Vec::new();
        while child.read(&mut shown).await.expect("it is read") > 0 {}
        let shown = String::from_utf8(shown).expect("text");
        assert!(are_default(&shown), "{shown}");
    }
}
