//! A whole local cloud: starts every part in order, and stops all of them together.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use shared::adapters::machine::read_flows;
use tokio::task::JoinHandle;

use crate::aws::{Endpoint, REGION};
use crate::demo_signing_secret::DemoSigningSecret;
use crate::deploy::{self, Deployment, Schedule};
use crate::emulator::{self, EmulatorProcess};
use crate::flows_copy::FlowsCopy;
use crate::gateway::{self, Routes};
use crate::journal::Journal;
use crate::lambda::Lambda;
use crate::listen_ports::{self, ListenPorts};
use crate::partners::StubIntegration;
use crate::permissions::{self, CallRecord};
use crate::poller::Poller;
use crate::project::Project;
use crate::run_credentials::{self, RunCredentials};
use crate::secrets::{self, DemoSecrets};
use crate::stack::Stack;
use crate::state_folder::StateFolder;
use crate::step_progress::StepProgress;
use crate::template::{self, TemplateFunction};
use crate::tools::{self, Tools};
use crate::{binaries, console, emulator_proxy, partners, stage, team_functions};

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
    /// The most messages of a queue that may be in flight, where that is to be fewer than the emulator allows.
    pub in_flight_limit: Option<usize>,
    /// The collector that the functions export their spans to, if they do.
    pub traces: Option<String>,
    /// What keeps the calls that the functions make.
    pub(crate) record: Arc<CallRecord>,
}

impl CloudOptions {
    /// The options of `make run`: fixed ports.
    pub fn run() -> Self {
        Self {
            name: "run".into(),
            ports: ListenPorts::default(),
            flows: None,
            schedule: Schedule::On,
            in_flight_limit: None,
            traces: None,
            record: Arc::default(),
        }
    }

    /// The options of the tests: any free ports, and no schedule.
    pub fn test() -> Self {
        Self {
            name: "test".into(),
            ports: ListenPorts::FREE,
            flows: None,
            schedule: Schedule::Off,
            in_flight_limit: None,
            traces: None,
            record: Arc::default(),
        }
    }
}

/// A running local cloud. Dropping it ends every part of it.
#[derive(Debug)]
pub struct LocalCloud {
    address: CloudAddress,
    /// The URL below which functions call the partner stub: a secret of this run.
    calls_url: String,
    demo: DemoSecrets,
    flows: FlowsCopy,
    // In the order in which events meet them: no part may send to one that is gone.
    servers: [ServerTask; 2],
    poller: Poller,
    proxy: ServerTask,
    emulator: EmulatorProcess,
    record: Arc<CallRecord>,
    state: StateFolder,
}

impl LocalCloud {
    /// Starts every part, and prints each step.
    pub async fn start(options: CloudOptions, progress: &StepProgress) -> Result<Self> {
        let project = Project::find()?;
        let state = StateFolder::take(&project, &options.name)?;
        // Before anything that takes time: a port that is in use is an error at once.
        let mut listeners = Listeners::open(options.ports)?;
        let credentials = RunCredentials::make()?;
        let flows = options.flows.unwrap_or_else(|| project.flows());
        let flows = FlowsCopy::make(&project, &flows, state.folder())?;
        let package = Package::make(&project, flows.running(), &state, progress).await?;

        let socket = emulator::socket_path(state.folder())?;
        let proxy = listeners.serve_emulator(&socket, &credentials, &options.record)?;
        let at = (listeners.emulator_port, Endpoint::signed(listeners.emulator_url(), credentials.clone()));
        let emulator = EmulatorProcess::start(&package.tools, socket, at, state.folder(), state.log("emulator.log"));
        let emulator = progress.step("start emulator", emulator).await?;
        let endpoint = emulator.endpoint();
        let deployed = (options.schedule, options.traces.as_deref());
        let stack = package.deploy(endpoint, &listeners, deployed, &state);
        let stack = progress.step("sam deploy", stack).await?;
        let known_flows = read_flows(flows.running())?;
        let demo = secrets::put(endpoint, state.folder(), &known_flows).await?;
        if known_flows.functions().next().is_some() {
            let calls = listeners.calls_url();
            let team = team_functions::deploy(&project, &known_flows, &package.tools, endpoint, &calls, state.folder());
            progress.step("deploy team functions", team).await?;
        }

        let address = address(&listeners, &package, &stack, &credentials, &state)?;
        let lambda = Lambda::new(endpoint.clone(), state.logs());
        let journal = Journal::create(&state.log("poller.jsonl"))?;
        let poller = Poller::start(endpoint, &lambda, options.in_flight_limit, journal).await?;
        let console = console::router(endpoint.clone(), lambda.clone(), credentials.control_token.clone());
        let routes = Routes::new(&package.functions, &stack)?;
        let token = secrets::of_integrations(state.folder())?;
        let mut known = StubIntegration::all(&known_flows, &token, state.folder())?;
        for partner in team_functions::partners(&project)? {
            known.entry(partner).or_default();
        }
        let partners = listeners.serve_partners(&credentials, known, &state)?;
        let gateway = listeners.serve_gateway(routes, lambda, console, &state)?;
        let servers = [gateway, partners];
        state.publish(&address)?;
        Ok(Self {
            address,
            calls_url: listeners.calls_url(),
            demo,
            flows,
            servers,
            poller,
            proxy,
            emulator,
            record: options.record,
            state,
        })
    }

    /// The address of every part.
    pub fn address(&self) -> &CloudAddress {
        &self.address
    }

    /// The emulator, for a chaos run to freeze and restart.
    pub fn emulator(&mut self) -> &mut EmulatorProcess {
        &mut self.emulator
    }

    /// Its flows: the folder that people write, and the copy that the functions read.
    pub fn flows(&self) -> &FlowsCopy {
        &self.flows
    }

    /// The key that the demo source signs with.
    pub fn secret(&self) -> &DemoSigningSecret {
        &self.demo.signing
    }

    /// Checks the functions' roles against the calls that they made. Returns how many permissions they used.
    pub async fn check_permissions(&self) -> Result<usize> {
        let project = Project::find()?;
        permissions::check(&project, &self.address.emulator(), &self.address.functions, &self.record).await
    }

    /// The environment variables that a program needs to use this cloud.
    pub fn environment(&self) -> Result<Vec<(&'static str, &str)>> {
        let address = &self.address;
        Ok(vec![
            ("LEDGERLINE_URL", &address.url),
            ("LEDGERLINE_PARTNERS_URL", &address.partners_url),
            ("LEDGERLINE_CALLS_URL", &self.calls_url),
            ("LEDGERLINE_SECRET", self.demo.signing.text()),
            ("LEDGERLINE_RECEIPTS_TOKEN", &self.demo.receipts),
            ("LEDGERLINE_REPLAY_FUNCTION", address.function("replay")?),
            ("LEDGERLINE_LEDGER_TABLE", &address.ledger_table),
            ("LEDGERLINE_LIMITS_TABLE", &address.limits_table),
            ("LEDGERLINE_CONTACTS_TABLE", &address.contacts_table),
            ("LEDGERLINE_EVENTS_QUEUE_URL", &address.events_queue_url),
            ("LEDGERLINE_DEAD_LETTERS_QUEUE_URL", &address.dead_letters_queue_url),
            ("AWS_ENDPOINT_URL", &address.endpoint),
            ("AWS_ACCESS_KEY_ID", &address.credentials.access_key_id),
            ("AWS_SECRET_ACCESS_KEY", &address.credentials.secret_access_key),
            ("LEDGERLINE_CONTROL_TOKEN", &address.credentials.control_token),
            ("LEDGERLINE_STATE", address.state.to_str().context("the state folder has a name that is no text")?),
            ("AWS_REGION", REGION),
        ])
    }

    /// Stops every part, and waits until the emulator is gone.
    pub async fn stop(self) {
        drop(self.servers);
        drop(self.poller);
        drop(self.proxy);
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
        let tools = progress.step("install tools", tools::set_up(project, tools::RUN)).await?;
        let binaries = progress.loud_step("build functions", binaries::build(project)).await?;
        let functions = template::functions(&project.template())?;
        let folder = state.folder().join("stage");
        let template = stage::stage(project, flows, &tools, &functions, &binaries, &folder);
        let template = progress.step("package functions", template).await?;
        Ok(Self { tools, functions, flows: flows.to_owned(), template })
    }

    async fn deploy(
        &self,
        endpoint: &Endpoint,
        listeners: &Listeners,
        (schedule, traces): (Schedule, Option<&str>),
        state: &StateFolder,
    ) -> Result<Stack> {
        let (partners_url, log) = (&listeners.calls_url(), state.log("deploy.log"));
        let (template, flows, public_url) = (&self.template, &self.flows, Some(listeners.url.as_str()));
        let stack = deploy::STACK;
        let deployment = Deployment { stack, template, flows, partners_url, public_url, schedule, traces };
        deploy::deploy(&self.tools, endpoint, &deployment, &log).await?;
        Stack::describe(endpoint, deploy::STACK).await
    }
}

fn address(
    listeners: &Listeners,
    package: &Package,
    stack: &Stack,
    credentials: &RunCredentials,
    state: &StateFolder,
) -> Result<CloudAddress> {
    let name = |function: &TemplateFunction| {
        let name = stack.physical_id(&function.logical_id)?;
        let short = name.strip_prefix(deploy::STACK).and_then(|rest| rest.strip_prefix('-'));
        Ok((short.unwrap_or(name).to_owned(), name.to_owned()))
    };
    Ok(CloudAddress {
        pid: std::process::id(),
        url: listeners.url.clone(),
        partners_url: listeners.partners_url.clone(),
        endpoint: listeners.emulator_url(),
        functions: package.functions.iter().map(name).collect::<Result<_>>()?,
        ledger_table: stack.output("LedgerTableName")?.to_owned(),
        limits_table: stack.output("LimitsTableName")?.to_owned(),
        contacts_table: stack.output("ContactsTableName")?.to_owned(),
        events_queue_url: stack.output("EventsQueueUrl")?.to_owned(),
        dead_letters_queue_url: stack.output("DeadLettersQueueUrl")?.to_owned(),
        flows: package.flows.clone(),
        state: state.folder().to_owned(),
        credentials: credentials.clone(),
    })
}

/// The listeners, opened before the parts behind them exist. Each part takes its own.
struct Listeners {
    gateway: Option<TcpListener>,
    partners: Option<TcpListener>,
    emulator: Option<TcpListener>,
    url: String,
    partners_url: String,
    /// The path below which the processor calls the partner stub: a secret of this run.
    calls_path: String,
    emulator_port: u16,
}

impl Listeners {
    fn open(ports: ListenPorts) -> Result<Self> {
        let gateway = listen_ports::listen(ports.gateway, "API", "--port")?;
        let partners = listen_ports::listen(ports.partners, "partner stub", "--partners-port")?;
        let emulator = listen_ports::listen(ports.emulator, "emulator", "--emulator-port")?;
        Ok(Self {
            url: format!("http://127.0.0.1:{}", listen_ports::port_of(&gateway)?),
            partners_url: format!("http://127.0.0.1:{}", listen_ports::port_of(&partners)?),
            calls_path: run_credentials::random::<16>()?,
            emulator_port: listen_ports::port_of(&emulator)?,
            gateway: Some(gateway),
            partners: Some(partners),
            emulator: Some(emulator),
        })
    }

    fn calls_url(&self) -> String {
        format!("{}/{}", self.partners_url, self.calls_path)
    }

    fn emulator_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.emulator_port)
    }

    fn serve_emulator(
        &mut self,
        socket: &Path,
        credentials: &RunCredentials,
        record: &Arc<CallRecord>,
    ) -> Result<ServerTask> {
        let listener = take(&mut self.emulator)?;
        Ok(ServerTask(emulator_proxy::serve(listener, socket.to_owned(), credentials.clone(), record.clone())?))
    }

    fn serve_partners(
        &mut self,
        run: &RunCredentials,
        known: BTreeMap<String, StubIntegration>,
        state: &StateFolder,
    ) -> Result<ServerTask> {
        let journal = Journal::create(&state.log("partners.jsonl"))?;
        let listener = take(&mut self.partners)?;
        Ok(ServerTask(partners::serve(listener, &run.control_token, &self.calls_path, known, journal)?))
    }

    fn serve_gateway(
        &mut self,
        routes: Routes,
        lambda: Lambda,
        console: Router,
        state: &StateFolder,
    ) -> Result<ServerTask> {
        let journal = Journal::create(&state.log("gateway.jsonl"))?;
        Ok(ServerTask(gateway::serve(take(&mut self.gateway)?, routes, lambda, console, journal)?))
    }
}

fn take(listener: &mut Option<TcpListener>) -> Result<TcpListener> {
    listener.take().context("the local cloud cannot start: one of its ports is served already")
}

/// The task of a server. Dropping the handle alone would leave the task running.
#[derive(Debug)]
struct ServerTask(JoinHandle<()>);

impl Drop for ServerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
