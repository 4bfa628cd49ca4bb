//! A folder of flows that one test has to itself, and the command in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A new folder with these files.
pub(crate) fn flows_folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("flows")).expect("a folder");
    for (path, text) in files {
        let file = folder.join(path);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, text).expect("a file");
    }
    folder
}

/// Runs the command there.
pub(crate) fn ledgerline(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledgerline"));
    command.current_dir(folder).args(arguments).output().expect("it runs")
}

/// All that it printed.
pub(crate) fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
