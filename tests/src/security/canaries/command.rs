//! What the command `ledgerline` prints of the run, as its operator sees it on a terminal or hands it to a script.

use std::process::Output;

use replay::{Access, Console, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use super::{BUT_RESULTS, CanaryRun, assert_clean, assert_none};
use crate::cloud::binary;
use crate::fixtures::flows;
use crate::memory::World;

/// Runs the command against this world's replay function.
async fn ledgerline(world: &World, arguments: &[&str]) -> Output {
    let door = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", door.local_addr().expect("an address"));
    let mut command = Command::new(binary());
    command.env_clear().env("AWS_ENDPOINT_URL", url).env("AWS_REGION", "eu-central-1");
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test").env("USER", "ada");
    let ended = command.args(arguments).output();
    tokio::pin!(ended);
    loop {
        tokio::select! {
            output = &mut ended => return output.expect("it runs"),
            call = door.accept() => answer(world, call.expect("a connection").0).await,
        }
    }
}

/// Answers one invocation, as Lambda does. Whatever else is asked is denied.
async fn answer(world: &World, mut stream: TcpStream) {
    let payload = read(&mut stream).await;
    let console = Console {
        replay: &world.replay,
        access: Access::Operate,
        endpoint: "arn:aws:lambda:eu-central-1:0:function:ledgerline-replay:live",
        caller: None,
    };
    let (status, body) = match payload {
        Some(payload) => (200, serve(&console, payload).await.expect("the models answer")),
        None => (403, json!({})),
    };
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    // The command may have gone.
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

/// The body of a request, if it is JSON.
async fn read(stream: &mut TcpStream) -> Option<Value> {
    let mut text = Vec::new();
    loop {
        stream.read_buf(&mut text).await.ok().filter(|read| *read > 0)?;
        let seen = String::from_utf8_lossy(&text);
        let Some((head, body)) = seen.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return serde_json::from_str(body).ok();
        }
    }
}

#[tokio::test]
#[ignore = "needs the command: make test"]
async fn no_personal_data_comes_out_of_what_the_command_prints() {
    let run = CanaryRun::of(flows());
    run.everything().await;
    let told = async |arguments: &[&str]| {
        let output = ledgerline(&run.world, arguments).await;
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {text}");
        text
    };
    for arguments in [&["status"][..], &["status", "--json"], &["dead", "list"], &["dead", "reasons"]] {
        assert_clean(&format!("`ledgerline {}`", arguments.join(" ")), &told(arguments).await);
    }
    for row in run.world.ledger.rows() {
        let id = row.id.as_str();
        for arguments in
            [&["dead", "show", id][..], &["dead", "show", id, "--json"], &["trace", id], &["trace", id, "--otlp"]]
        {
            assert_clean(&format!("`ledgerline {}`", arguments.join(" ")), &told(arguments).await);
        }
        let with_results = told(&["dead", "show", id, "--json", "--results"]).await;
        assert_none(&BUT_RESULTS, "`ledgerline dead show --json --results`", &with_results);
    }
}
