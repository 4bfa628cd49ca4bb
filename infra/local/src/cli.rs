//! The verbs and the options of the `local` command.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::listen_ports::ListenPorts;
use crate::new_event::EventArgs;
use crate::signed_request::SignArgs;
use crate::{chaos, night, verbs};

/// The local cloud: the real template in an emulator, on this machine alone.
#[derive(Debug, Parser)]
#[command(name = "local")]
pub struct LocalCli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start a local cloud, and keep it running until Ctrl-C.
    Up {
        #[command(flatten)]
        ports: PortFlags,
        #[command(flatten)]
        flows: FlowsFlag,
    },
    /// Start local clouds, run a command against them, and stop them.
    Exec {
        /// How many: as many as `.config/nextest.toml` lets tests run side by side that take turns on a cloud.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
        clouds: u8,
        #[command(flatten)]
        flows: FlowsFlag,
        /// After the command: check that the functions' roles allow the calls that were made, and nothing else.
        #[arg(long)]
        permissions: bool,
        /// The command and its arguments.
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
    /// Invoke a function of the local cloud that is running.
    Invoke {
        /// The function: intake, processor, replay or console.
        function: String,
        /// The event, as JSON.
        event: String,
    },
    /// Start a local cloud, break it under load, heal it, and check that no effect is missing or done twice.
    Chaos(chaos::ChaosArgs),
    /// Start a local cloud, let many events of one flow wait, and check that another flow does not notice.
    Night(night::NightArgs),
    /// Post a signed event to the local cloud that is running, and print the answer.
    Send(EventArgs),
    /// Print a signed request for a flow of the local cloud that is running, to paste or to pipe into `sh`.
    Sign(SignArgs),
    /// Stop the local cloud that is running.
    Stop,
    /// Check the template with cfn-lint, sam validate and checkov.
    Lint,
    /// Check that what `sam build` left is for the machine that is deployed.
    Built {
        /// The instruction set: arm64 or x86_64.
        architecture: String,
    },
    /// Start a local cloud, and ask of it what `make verify` asks of AWS.
    Verify,
    /// Take the requests of the catalogue through Prism, and write their snapshots.
    Partners {
        /// The folder with the partners' API descriptions.
        descriptions: PathBuf,
    },
    /// Install the tools that the local cloud needs, and do nothing else.
    Tools {
        /// Install the tools for building and deploying to AWS, too.
        #[arg(long)]
        deploy: bool,
    },
}

#[derive(Debug, Args)]
struct PortFlags {
    /// The port of the API that senders post to.
    #[arg(long = "port", default_value_t = ListenPorts::default().gateway)]
    gateway: u16,
    /// The port of the partner stub.
    #[arg(long = "partners-port", default_value_t = ListenPorts::default().partners)]
    partners: u16,
    /// The port of the AWS emulator.
    #[arg(long = "emulator-port", default_value_t = ListenPorts::default().emulator)]
    emulator: u16,
}

#[derive(Debug, Args)]
struct FlowsFlag {
    /// The folder with sources.yaml, integrations.yaml and flows/, in place of infra/flows.
    #[arg(long)]
    flows: Option<PathBuf>,
}

impl From<PortFlags> for ListenPorts {
    fn from(flags: PortFlags) -> Self {
        Self { gateway: flags.gateway, partners: flags.partners, emulator: flags.emulator }
    }
}

impl LocalCli {
    /// Runs the verb.
    pub async fn run(self) -> Result<ExitCode> {
        match self.verb {
            Verb::Up { ports, flows } => verbs::up(ports.into(), flows.flows).await,
            Verb::Exec { clouds, flows, permissions, command } => {
                verbs::exec(&command, clouds.into(), flows.flows, permissions).await
            }
            Verb::Invoke { function, event } => verbs::invoke(&function, &event).await,
            Verb::Chaos(flags) => verbs::chaos(&flags).await,
            Verb::Night(flags) => verbs::night(&flags).await,
            Verb::Send(event) => verbs::send(&event).await,
            Verb::Sign(args) => verbs::sign(&args),
            Verb::Stop => verbs::stop().await,
            Verb::Lint => verbs::lint().await,
            Verb::Built { architecture } => verbs::built(&architecture),
            Verb::Verify => verbs::verify().await,
            Verb::Partners { descriptions } => verbs::partners(&descriptions).await,
            Verb::Tools { deploy } => verbs::install(deploy).await,
        }
    }
}
