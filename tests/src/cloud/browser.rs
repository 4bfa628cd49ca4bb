//! A real browser, driven over WebDriver: a handful of JSON requests.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use base64::prelude::*;
use local::aws::Endpoint;
use serde_json::{Value, json};

use super::system::eventually;

/// How long a page or a script may take, in milliseconds.
const PATIENCE: u32 = 300_000;

/// A window of Chromium. Dropping it ends it.
pub(super) struct Browser {
    driver: Child,
    /// Kept open: a driver that cannot write would end.
    _words: BufReader<ChildStdout>,
    endpoint: Endpoint,
    session: String,
}

/// The port that the driver has chosen: it says so when it is ready.
fn port(words: &mut BufReader<ChildStdout>) -> u16 {
    let mut lines = words.lines().map_while(Result::ok);
    let told =
        lines.find_map(|line| line.split_once("started successfully on port ")?.1.trim_end_matches('.').parse().ok());
    told.expect("chromedriver says its port")
}

impl Browser {
    /// A window that shows this page.
    pub(super) async fn open(url: &str) -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("this needs chromium and chromedriver on PATH: apt-get install chromium chromium-driver");
        let mut words = BufReader::new(driver.stdout.take().expect("its words"));
        let endpoint = Endpoint::new(port(&mut words));
        let mut browser = Browser { driver, _words: words, endpoint, session: String::new() };
        let session = browser.ask("POST", "/session", json!({"capabilities": {"alwaysMatch": capabilities()}})).await;
        browser.session = format!("/session/{}", session["sessionId"].as_str().expect("a session"));
        browser.go(url).await;
        browser
    }

    /// Opens another page in the window.
    pub(super) async fn go(&self, url: &str) {
        self.command("POST", "/url", json!({"url": url})).await;
    }

    /// What a script returns, or what its promise becomes.
    pub(super) async fn run(&self, script: &str) -> Value {
        self.command("POST", "/execute/sync", json!({"script": script, "args": []})).await
    }

    /// Clicks what the XPath finds, once it is there. The page may be drawn anew in between.
    pub(super) async fn click(&self, xpath: &str) {
        self.with(xpath, "click", json!({})).await;
    }

    /// Writes into the field of this name.
    pub(super) async fn write(&self, name: &str, text: &str) {
        let field = format!("//main//input[@name='{name}']");
        self.with(&field, "clear", json!({})).await;
        self.with(&field, "value", json!({"text": text})).await;
    }

    /// Says yes to the question that the page asks, and what the question was.
    pub(super) async fn confirm(&self) -> String {
        let question = self.command("GET", "/alert/text", Value::Null).await;
        self.command("POST", "/alert/accept", json!({})).await;
        question.as_str().expect("a question").to_owned()
    }

    /// Waits until the elements of this selector have this text.
    pub(super) async fn until_text(&self, selector: &str, text: &str) {
        let script =
            format!("return [...document.querySelectorAll('{selector}')].map((found) => found.textContent).join(' ')");
        eventually(&format!("{selector} says {text}"), async || {
            let seen = self.run(&script).await;
            if seen.as_str().is_some_and(|seen| seen.contains(text)) { Ok(()) } else { Err(seen) }
        })
        .await;
    }

    /// The window as a PNG.
    pub(super) async fn screenshot(&self) -> Vec<u8> {
        let encoded = self.command("GET", "/screenshot", Value::Null).await;
        BASE64_STANDARD.decode(encoded.as_str().expect("a picture")).expect("base64")
    }

    async fn with(&self, xpath: &str, action: &str, body: Value) {
        eventually(&format!("{action} on {xpath}"), async || {
            let wanted = json!({"using": "xpath", "value": xpath});
            let found = self.try_ask("POST", &format!("{}/element", self.session), wanted).await?;
            let element = found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str);
            let path = format!("{}/element/{}/{action}", self.session, element.unwrap_or_default());
            self.try_ask("POST", &path, body.clone()).await
        })
        .await;
    }

    async fn command(&self, method: &str, path: &str, body: Value) -> Value {
        self.ask(method, &format!("{}{path}", self.session), body).await
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        self.try_ask(method, path, body).await.unwrap_or_else(|error| panic!("{method} {path}: {error:#}"))
    }

    async fn try_ask(&self, method: &str, path: &str, body: Value) -> Result<Value, Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let headers = [("content-type", "application/json")];
        let sent = self.endpoint.send("", method.parse().expect("a method"), path, &headers, body).await;
        let answer = sent.map_err(|error| json!(format!("{error:#}")))?;
        let value = answer.json().map_err(|error| json!(error.to_string()))?["value"].clone();
        if answer.status.is_success() { Ok(value) } else { Err(value) }
    }
}

/// The browser goes with the pipe to its driver. Root may not use its sandbox. One name is pointed at this machine, as
/// an attacker would point theirs.
fn capabilities() -> Value {
    let args = [
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--hide-scrollbars",
        "--host-resolver-rules=MAP rebound.example 127.0.0.1",
        "--remote-debugging-pipe",
        "--window-size=1180,860",
    ];
    let timeouts = json!({"script": PATIENCE, "pageLoad": PATIENCE});
    json!({"browserName": "chrome", "goog:chromeOptions": {"args": args}, "timeouts": timeouts})
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
