//! What the `local` command takes.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::listen_ports::ListenPorts;
use crate::{chaos, verbs};

/// The local cloud: the real template in an emulator, on this machine alone.
#[derive(Debug, Parser)]
#[command(name = "local")]
pub struct LocalCli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Bring a cloud up and keep it until Ctrl-C.
    Up {
        #[command(flatten)]
        ports: PortFlags,
        #[command(flatten)]
        flows: FlowsFlag,
    },
    /// Bring a cloud up, run a command against it, and take it down.
    Exec {
        #[command(flatten)]
        flows: FlowsFlag,
        /// The command and its arguments.
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
    /// Invoke a function of the cloud that is up.
    Invoke {
        /// intake, processor, replay or console.
        function: String,
        /// The event, as JSON.
        event: String,
    },
    /// Bring a cloud up, break it under load, heal it, and see whether the books balance.
    Chaos(chaos::ChaosArgs),
    /// End the cloud that is up.
    Stop,
    /// Check the template that would be deployed.
    Lint,
    /// Install the tools, and do nothing else.
    Tools {
        /// Those for building and deploying to AWS, too.
        #[arg(long)]
        deploy: bool,
    },
}

#[derive(Debug, Args)]
struct PortFlags {
    /// Where the front door listens.
    #[arg(long = "port", default_value_t = ListenPorts::default().gateway)]
    gateway: u16,
    /// Where the partner stub listens.
    #[arg(long = "partners-port", default_value_t = ListenPorts::default().partners)]
    partners: u16,
    /// Where the emulator listens.
    #[arg(long = "emulator-port", default_value_t = ListenPorts::default().emulator)]
    emulator: u16,
}

#[derive(Debug, Args)]
struct FlowsFlag {
    /// The folder with sources.yaml, integrations.yaml and flows/, instead of those that are shipped.
    #[arg(long)]
    flows: Option<PathBuf>,
}

impl From<PortFlags> for ListenPorts {
    fn from(flags: PortFlags) -> Self {
        Self { gateway: flags.gateway, partners: flags.partners, emulator: flags.emulator }
    }
}

impl LocalCli {
    /// Do what was asked.
    pub async fn run(self) -> Result<ExitCode> {
        match self.verb {
            Verb::Up { ports, flows } => verbs::up(ports.into(), flows.flows).await,
            Verb::Exec { flows, command } => verbs::exec(&command, flows.flows).await,
            Verb::Invoke { function, event } => verbs::invoke(&function, &event).await,
            Verb::Chaos(flags) => verbs::chaos(&flags).await,
            Verb::Stop => verbs::stop().await,
            Verb::Lint => verbs::lint().await,
            Verb::Tools { deploy } => verbs::install(deploy).await,
        }
    }
}
