//! Files and folders that only their owner can read: logs and state of a local cloud hold secrets and people's data.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{Result, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE: u32 = 0o600;
const FOLDER: u32 = 0o700;

/// Creates an empty file, or empties the one that is there.
pub fn create(path: &Path) -> Result<File> {
    opened(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// Opens a file to add to its end.
pub fn append(path: &Path) -> Result<File> {
    opened(OpenOptions::new().create(true).append(true), path)
}

/// Writes a whole file.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    create(path)?.write_all(content.as_ref())
}

/// Copies a file's content, and not its mode.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    std::io::copy(&mut File::open(from)?, &mut create(to)?).map(drop)
}

/// Creates a folder, with the ones above it, or closes the one that is there to others.
pub fn create_folder(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(FOLDER))
}

/// Closes off what an earlier version left open below a folder, if there is such a folder.
pub fn close_off(folder: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    fs::set_permissions(folder, Permissions::from_mode(FOLDER))?;
    for entry in entries {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => close_off(&entry.path())?,
            kind if kind.is_file() => fs::set_permissions(entry.path(), Permissions::from_mode(FILE))?,
            _ => (),
        }
    }
    Ok(())
}

/// The mode is that of the creation: written first and closed off later, others could read it between. A file that
/// an earlier version left open is closed off before it is written.
fn opened(options: &mut OpenOptions, path: &Path) -> Result<File> {
    let file = options.mode(FILE).open(path)?;
    file.set_permissions(Permissions::from_mode(FILE))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn what_is_written_is_for_its_owner_only_also_where_it_was_open_before() {
        let folder = std::env::temp_dir().join(format!("ledgerline-private-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("an open folder");
        fs::write(folder.join("old"), "").expect("a file");
        fs::set_permissions(folder.join("old"), Permissions::from_mode(0o644)).expect("an open file");

        create_folder(&folder).expect("a folder");
        write(&folder.join("old"), "a").expect("a file");
        append(&folder.join("new")).expect("a file");
        copy(&folder.join("old"), &folder.join("copy")).expect("a file");
        let modes = [mode(&folder), mode(&folder.join("old")), mode(&folder.join("new")), mode(&folder.join("copy"))];
        fs::remove_dir_all(&folder).expect("the folder");

        assert_eq!(modes, [0o700, 0o600, 0o600, 0o600]);
    }
}
