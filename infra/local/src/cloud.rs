//! A whole local cloud: starts every part in order, and stops all of them together.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use axum::Router;
use shared::adapters::machine::read_flows;
use tokio::task::JoinHandle;

use crate::aws::{ACCESS_KEY, Endpoint, REGION};
use crate::demo_signing_secret::DemoSigningSecret;
use crate::deploy::{self, Schedule};
use crate::emulator::EmulatorProcess;
use crate::gateway::{self, Routes};
use crate::journal::Journal;
use crate::lambda::Lambda;
use crate::listen_ports::{self, ListenPorts};
use crate::poller::Poller;
use crate::project::Project;
use crate::secrets::{self, DemoSecrets};
use crate::stack::Stack;
use crate::state_folder::StateFolder;
use crate::step_progress::StepProgress;
use crate::template::{self, TemplateFunction};
use crate::tools::{self, Tools};
use crate::{binaries, console, partners, stage};

pub use crate::state_folder::CloudAddress;

/// The options in which two local clouds on one machine may differ.
#[derive(Clone, Debug)]
pub struct CloudOptions {
    /// The name of its folder under `.local`.
    pub name: String,
    /// The ports that it listens on.
    pub ports: ListenPorts,
    /// The folder with its sources, integrations and flows; without one, `infra/flows`.
    pub flows: Option<PathBuf>,
    /// Whether the replay function's schedule runs.
    pub schedule: Schedule,
}

impl CloudOptions {
    /// The options of `make run`: fixed ports.
    pub fn run() -> Self {
        Self { name: "run".into(), ports: ListenPorts::default(), flows: None, schedule: Schedule::On }
    }

    /// The options of the tests: any free ports, and no schedule.
    pub fn test() -> Self {
        Self { name: "test".into(), ports: ListenPorts::FREE, flows: None, schedule: Schedule::Off }
    }
}

/// A running local cloud. Dropping it ends every part of it.
#[derive(Debug)]
pub struct LocalCloud {
    address: CloudAddress,
    demo: DemoSecrets,
    flows: PathBuf,
    // In the order in which events meet them: no part may send to one that is gone.
    servers: Servers,
    poller: Poller,
    emulator: EmulatorProcess,
    state: StateFolder,
}

impl LocalCloud {
    /// Starts every part, and prints each step.
    pub async fn start(options: CloudOptions, progress: &StepProgress) -> Result<Self> {
        let project = Project::find()?;
        let state = StateFolder::take(&project, &options.name)?;
        // Before anything that takes time: a port that is in use is an error at once.
        let listeners = Listeners::open(options.ports)?;
        let flows = options.flows.unwrap_or_else(|| project.flows());
        let package = Package::make(&project, &flows, &state, progress).await?;

        let emulator =
            EmulatorProcess::start(&package.tools, listeners.emulator, state.folder(), state.log("emulator.log"));
        let emulator = progress.step("start emulator", emulator).await?;
        let endpoint = emulator.endpoint();
        let stack = package.deploy(endpoint, &listeners, options.schedule, &state);
        let stack = progress.step("sam deploy", stack).await?;
        let demo = secrets::put(endpoint, state.folder(), &read_flows(&flows)?).await?;

        let address = address(&listeners, &package, &stack, endpoint, &state)?;
        let lambda = Lambda::new(endpoint.clone(), state.logs());
        let poller = Poller::start(endpoint, &lambda, Journal::create(&state.log("poller.jsonl"))?).await?;
        let console = console::router(endpoint.clone(), lambda.clone());
        let servers = listeners.serve(Routes::new(&package.functions, &stack)?, lambda, console, &state)?;
        state.publish(&address)?;
        Ok(Self { address, demo, flows, servers, poller, emulator, state })
    }

    /// The address of every part.
    pub fn address(&self) -> &CloudAddress {
        &self.address
    }

    /// The emulator, for a chaos run to freeze and restart.
    pub fn emulator(&mut self) -> &mut EmulatorProcess {
        &mut self.emulator
    }

    /// The folder that the functions read their flows from.
    pub fn flows(&self) -> &Path {
        &self.flows
    }

    /// The key that the demo source signs with.
    pub fn secret(&self) -> &DemoSigningSecret {
        &self.demo.signing
    }

    /// The environment variables that a program needs to use this cloud.
    pub fn environment(&self) -> Result<Vec<(&'static str, &str)>> {
        let address = &self.address;
        Ok(vec![
            ("LEDGERLINE_URL", &address.url),
            ("LEDGERLINE_PARTNERS_URL", &address.partners_url),
            ("LEDGERLINE_SECRET", self.demo.signing.text()),
            ("LEDGERLINE_RECEIPTS_TOKEN", &self.demo.receipts),
            ("LEDGERLINE_REPLAY_FUNCTION", address.function("replay")?),
            ("LEDGERLINE_LEDGER_TABLE", &address.ledger_table),
            ("LEDGERLINE_LIMITS_TABLE", &address.limits_table),
            ("LEDGERLINE_CONTACTS_TABLE", &address.contacts_table),
            ("LEDGERLINE_EVENTS_QUEUE_URL", &address.events_queue_url),
            ("LEDGERLINE_DEAD_LETTERS_QUEUE_URL", &address.dead_letters_queue_url),
            ("AWS_ENDPOINT_URL", &address.endpoint),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", ACCESS_KEY),
            ("AWS_REGION", REGION),
        ])
    }

    /// Stops every part, and waits until the emulator is gone.
    pub async fn stop(self) {
        drop(self.servers);
        drop(self.poller);
        self.emulator.stop().await;
        drop(self.state);
    }
}

/// The package to deploy, and the tools that deploy it.
struct Package {
    tools: Tools,
    functions: Vec<TemplateFunction>,
    flows: PathBuf,
    template: PathBuf,
}

impl Package {
    async fn make(project: &Project, flows: &Path, state: &StateFolder, progress: &StepProgress) -> Result<Self> {
        // The functions run in other folders, and read it, too.
        let flows = flows.canonicalize().with_context(|| {
            format!("the local cloud cannot start: cannot find the flows folder {}. Check --flows", flows.display())
        })?;
        let tools = progress.step("install tools", tools::set_up(project, tools::RUN)).await?;
        let binaries = progress.loud_step("build functions", binaries::build(project)).await?;
        let functions = template::functions(&project.template())?;
        let folder = state.folder().join("stage");
        let template = stage::stage(project, &flows, &tools, &functions, &binaries, &folder);
        let template = progress.step("package functions", template).await?;
        Ok(Self { tools, functions, flows, template })
    }

    async fn deploy(
        &self,
        endpoint: &Endpoint,
        listeners: &Listeners,
        schedule: Schedule,
        state: &StateFolder,
    ) -> Result<Stack> {
        let (partners, log) = (&listeners.partners_url, state.log("deploy.log"));
        deploy::deploy(&self.tools, &self.flows, endpoint, &self.template, partners, schedule, &log).await?;
        Stack::describe(endpoint, deploy::STACK).await
    }
}

fn address(
    listeners: &Listeners,
    package: &Package,
    stack: &Stack,
    endpoint: &Endpoint,
    state: &StateFolder,
) -> Result<CloudAddress> {
    let name = |function: &TemplateFunction| {
        let name = stack.physical_id(&function.logical_id)?;
        let short = name.strip_prefix(deploy::STACK).and_then(|rest| rest.strip_prefix('-'));
        Ok((short.unwrap_or(name).to_owned(), name.to_owned()))
    };
    Ok(CloudAddress {
        pid: std::process::id(),
        url: format!("http://127.0.0.1:{}", listen_ports::port_of(&listeners.gateway)?),
        partners_url: listeners.partners_url.clone(),
        endpoint: endpoint.url().to_owned(),
        functions: package.functions.iter().map(name).collect::<Result<_>>()?,
        ledger_table: stack.output("LedgerTableName")?.to_owned(),
        limits_table: stack.output("LimitsTableName")?.to_owned(),
        contacts_table: stack.output("ContactsTableName")?.to_owned(),
        events_queue_url: stack.output("EventsQueueUrl")?.to_owned(),
        dead_letters_queue_url: stack.output("DeadLettersQueueUrl")?.to_owned(),
        state: state.folder().to_owned(),
    })
}

/// The listeners, opened before the parts behind them exist.
struct Listeners {
    gateway: TcpListener,
    partners: TcpListener,
    partners_url: String,
    emulator: u16,
}

impl Listeners {
    fn open(ports: ListenPorts) -> Result<Self> {
        let gateway = listen_ports::listen(ports.gateway, "API", "--port")?;
        let partners = listen_ports::listen(ports.partners, "partner stub", "--partners-port")?;
        // Closed again: the emulator binds it itself.
        let emulator = listen_ports::listen(ports.emulator, "emulator", "--emulator-port")?;
        Ok(Self {
            partners_url: format!("http://127.0.0.1:{}", listen_ports::port_of(&partners)?),
            emulator: listen_ports::port_of(&emulator)?,
            gateway,
            partners,
        })
    }

    fn serve(self, routes: Routes, lambda: Lambda, console: Router, state: &StateFolder) -> Result<Servers> {
        let partners = partners::serve(self.partners, Journal::create(&state.log("partners.jsonl"))?)?;
        let journal = Journal::create(&state.log("gateway.jsonl"))?;
        Ok(Servers([partners, gateway::serve(self.gateway, routes, lambda, console, journal)?]))
    }
}

/// The tasks of the gateway and the partner stub. Dropping a task's handle would leave the task running.
#[derive(Debug)]
struct Servers([JoinHandle<()>; 2]);

impl Drop for Servers {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
