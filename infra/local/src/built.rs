//! What was built for AWS: whether its instruction set is the one that is deployed.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

/// The head of an ELF file that says what runs it.
const HEAD: usize = 20;

/// Checks each function below a folder of `sam build`. Lambda would take a binary for another machine, and fail each
/// invocation of it.
pub(crate) fn check(build: &Path, architecture: &str) -> Result<usize> {
    let unbuilt = || format!("nothing is checked: cannot read {}. Build first, with `make build`", build.display());
    let mut checked = 0;
    for entry in std::fs::read_dir(build).with_context(unbuilt)? {
        let binary = entry.with_context(unbuilt)?.path().join("bootstrap");
        if binary.is_file() {
            check_one(&binary, architecture)?;
            checked += 1;
        }
    }
    ensure!(checked > 0, "nothing is checked: there is no function in {}", build.display());
    Ok(checked)
}

fn check_one(binary: &Path, architecture: &str) -> Result<()> {
    let mut head = [0; HEAD];
    let read = File::open(binary).and_then(|mut file| file.read_exact(&mut head));
    read.with_context(|| format!("cannot read {}", binary.display()))?;
    match machine(&head) {
        Some(built) if built == architecture => Ok(()),
        built => bail!(
            "nothing is deployed: {} is {}, and ARCH is {architecture}. Build with the ARCH that you deploy, in one \
             command",
            binary.display(),
            built.map_or_else(|| "no program that Lambda runs".to_owned(), |built| format!("built for {built}")),
        ),
    }
}

/// The instruction set of an ELF file for 64 bits and little-endian, as Lambda calls it.
fn machine(head: &[u8; HEAD]) -> Option<&'static str> {
    let [0x7f, b'E', b'L', b'F', 2, 1, ..] = head else { return None };
    match u16::from_le_bytes([head[18], head[19]]) {
        62 => Some("x86_64"),
        183 => Some("arm64"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(head: &[u8]) -> std::path::PathBuf {
        let name = head.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let folder = std::env::temp_dir().join(format!("built-{}-{name}", std::process::id()));
        std::fs::create_dir_all(folder.join("IntakeFunction")).expect("a folder");
        std::fs::write(folder.join("IntakeFunction/bootstrap"), head).expect("a file");
        folder
    }

    #[test]
    fn a_binary_for_another_machine_is_not_deployed() {
        let elf = |machine: u8| [b"\x7fELF\x02\x01".as_slice(), &[0; 12], &[machine, 0]].concat();
        let told = |head: &[u8]| {
            let folder = built(head);
            let told = check(&folder, "arm64").map_err(|error| error.to_string());
            std::fs::remove_dir_all(folder).expect("it is there");
            told
        };
        assert_eq!(told(&elf(183)), Ok(1));
        assert!(told(&elf(62)).is_err_and(|error| error.contains("built for x86_64, and ARCH is arm64")));
        assert!(told(&[b'#'; HEAD]).is_err_and(|error| error.contains("no program that Lambda runs")));
        assert!(check(Path::new("/nowhere"), "arm64").is_err());
    }

    /// The test's own binary is one for this machine.
    #[test]
    fn a_real_binary_is_read() {
        let mut head = [0; HEAD];
        let binary = std::env::current_exe().expect("a test has a binary");
        File::open(binary).and_then(|mut file| file.read_exact(&mut head)).expect("it is read");
        assert_eq!(machine(&head), Some(if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" }));
    }
}
