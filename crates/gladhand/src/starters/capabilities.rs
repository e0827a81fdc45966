//! Processes of capabilities, on the leash: nothing of them outlives us, however we end.

use std::io;
use std::process::ExitStatus;

use async_trait::async_trait;
use gladhand_a2e_host::starting::{Held, Plain, Plan, Signal, Started, Starter};

use gladhand_process::child::pipes;
use gladhand_process::leash;
use gladhand_process::leashed::{Kind, Leashed, NotHeld};

/// Starts processes on the leash, where there is one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OnLeash;

#[async_trait]
impl Starter for OnLeash {
    async fn start(&self, plan: &Plan) -> io::Result<Started> {
        if !leash::is_enabled() {
            return Plain.start(plan).await;
        }
        let ((stdin, stdout, stderr), theirs) = pipes()?;
        let started = Leashed::start(&plan.command, Kind::Plain, &theirs, |builder| {
            builder.env_clear().envs(plan.environment.iter().map(|(name, value)| (name, value)));
            if let Some(folder) = &plan.folder {
                builder.current_dir(folder);
            }
        });
        match started.await {
            Ok(leashed) => {
                let pid = leashed.id().unwrap_or_default();
                Ok(Started { pid, stdin, stdout, stderr, held: Box::new(OnOne(leashed)) })
            }
            Err(NotHeld::NotStarted(error)) => Err(error),
            Err(NotHeld::NoLeash(error)) => {
                tracing::warn!(%error, "there is no leash: what this process starts may outlive us if we are killed");
                Plain.start(plan).await
            }
        }
    }
}

/// A process on its leash.
#[derive(Debug)]
struct OnOne(Leashed);

#[async_trait]
impl Held for OnOne {
    async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match signal {
            Signal::Terminate => self.0.terminate(),
            Signal::Interrupt => self.0.interrupt(),
            Signal::Kill => self.0.kill(),
        }
        Ok(())
    }
}
