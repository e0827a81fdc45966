//! Loads and checks the images of a prompt, and converts them to data URLs (`loaf` §7.3).

use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use gladhand_agent_tools::SecretFiles;

use crate::moment::Moment;
use crate::payloads::{Image, PendingImage};
use crate::text;

/// The maximum size of an image in bytes.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// The supported image types by file extension.
const KINDS: [(&str, &str); 5] = [
    (".png", "image/png"),
    (".jpg", "image/jpeg"),
    (".jpeg", "image/jpeg"),
    (".webp", "image/webp"),
    (".gif", "image/gif"),
];
/// Accepts base64 with or without padding, because senders differ.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Base folders for relative paths and `~`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImageFolders<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) home: Option<&'a Path>,
    /// The folders that may be read, after resolving links. Empty: no restriction.
    pub(crate) roots: &'a [PathBuf],
    /// Files that are not sent to a model.
    pub(crate) secret_files: &'a SecretFiles,
}

/// Loads the images of a prompt, in order. Fails with the first image that cannot be loaded.
pub(crate) fn load(images: &[PendingImage], folders: ImageFolders<'_>, now: Moment) -> Result<Vec<Image>, String> {
    let one = |image: &PendingImage| match &image.data_url {
        Some(url) => from_url(image, url, now),
        None => from_file(&image.path, folders),
    };
    images.iter().map(one).collect()
}

fn from_url(image: &PendingImage, url: &str, now: Moment) -> Result<Image, String> {
    let parts = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let parts = parts.filter(|(mime, payload)| !mime.is_empty() && !mime.contains([';', ',']) && !payload.is_empty());
    let (mime, payload) = parts.ok_or("invalid image data_url. expected data:<mime>;base64,<payload>")?;
    let mime_type = image.mime_type.as_deref().unwrap_or(mime).to_lowercase();
    if !KINDS.iter().any(|(_, known)| *known == mime_type) {
        return Err(format!("unsupported image mime type: {mime_type}"));
    }
    // Invalid characters are skipped, as other readers do.
    let digits: Vec<u8> = payload.bytes().filter(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(byte)).collect();
    let byte_size = LENIENT.decode(digits).map_or(0, |bytes| bytes.len() as u64);
    if byte_size == 0 {
        return Err("image payload is empty".to_owned());
    }
    check_size(byte_size)?;
    let path = match image.path.as_str() {
        "" => format!("rpc-image-{}.png", now.0),
        label => label.to_owned(),
    };
    Ok(Image { path, mime_type, data_url: url.to_owned(), byte_size })
}

fn from_file(path: &str, folders: ImageFolders<'_>) -> Result<Image, String> {
    let path = resolve(path, folders);
    let shown = path.display();
    let unreadable = |_| format!("unable to read image file: {shown}");
    // All checks are about the file that was opened, so that changing a link in between gains nothing.
    let file = gladhand_store::open_regular(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("file not found: {shown}"),
        ErrorKind::InvalidInput => format!("not a file: {shown}"),
        _ => format!("unable to read image file: {shown}"),
    })?;
    let data = file.metadata().map_err(unreadable)?;
    let real = path.canonicalize().map_err(unreadable)?;
    let found = real.symlink_metadata().map_err(unreadable)?;
    if (found.dev(), found.ino()) != (data.dev(), data.ino()) {
        return Err(format!("changed while it was opened: {shown}"));
    }
    if !is_within(&real, folders.roots) {
        return Err(format!("outside of the folders that may be read: {shown}"));
    }
    if folders.secret_files.for_another_call().contain(&real, &data) {
        return Err(format!("may hold secrets, and is not sent to a model: {shown}"));
    }
    check_size(data.len())?;
    let extension = path.extension().map(|end| format!(".{}", end.to_string_lossy().to_lowercase()));
    let kind = KINDS.iter().find(|(end, _)| extension.as_deref() == Some(end));
    let (_, mime_type) = kind.ok_or_else(|| {
        let extension = extension.as_deref().unwrap_or("(no extension)");
        format!("unsupported image type: {extension}. supported: .png, .jpg, .jpeg, .webp, .gif")
    })?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    // The file may have grown meanwhile.
    check_size(bytes.len() as u64)?;
    let encoded = base64::engine::general_purpose::STANDARD.encode(&bytes);
    Ok(Image {
        path: path.to_string_lossy().into_owned(),
        mime_type: (*mime_type).to_owned(),
        data_url: format!("data:{mime_type};base64,{encoded}"),
        byte_size: bytes.len() as u64,
    })
}

/// Whether a path is in one of these folders, after resolving links. True if the list is empty.
pub(crate) fn is_within(path: &Path, roots: &[PathBuf]) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path);
    roots.is_empty()
        || real(path).is_ok_and(|path| roots.iter().any(|root| real(root).is_ok_and(|root| path.starts_with(root))))
}

fn check_size(bytes: u64) -> Result<(), String> {
    if bytes > MAX_BYTES {
        return Err(format!("image too large ({}). max is {}", text::size(bytes), text::size(MAX_BYTES)));
    }
    Ok(())
}

/// The absolute path for user input, without `.` and `..`.
fn resolve(path: &str, folders: ImageFolders<'_>) -> PathBuf {
    let quoted = |mark: char| path.strip_prefix(mark).and_then(|rest| rest.strip_suffix(mark));
    let path = quoted('"').or_else(|| quoted('\'')).unwrap_or(path);
    let path = match path.strip_prefix("file://") {
        Some(encoded) => percent_decoded(encoded),
        None => path.to_owned(),
    };
    let path = match (path.strip_prefix("~/"), folders.home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => folders.folder.join(path),
    };
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match (bytes[at], code.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_agent_tools::ToolSettings;

    const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    fn one(folder: &Path, path: &str, url: Option<&str>, mime: Option<&str>) -> Result<Image, String> {
        let (data_url, mime_type) = (url.map(Into::into), mime.map(Into::into));
        let image = PendingImage { path: path.to_owned(), mime_type, data_url };
        let secret_files = SecretFiles::new(&ToolSettings::new(folder.join("data")));
        let loaded = load(
            &[image],
            ImageFolders { folder, home: Some(folder), roots: &[], secret_files: &secret_files },
            Moment(1_794_705_259_416),
        )?;
        Ok(loaded.into_iter().next().expect("one image was requested"))
    }

    #[test]
    fn invalid_data_urls_have_the_recorded_error_messages() {
        let here = Path::new("/");
        let url = |url: &str| one(here, "", Some(url), None).unwrap_err();
        assert_eq!(url("not-a-data-url"), "invalid image data_url. expected data:<mime>;base64,<payload>");
        assert_eq!(url("data:image/png,abc"), "invalid image data_url. expected data:<mime>;base64,<payload>");
        assert_eq!(url("data:text/plain;base64,aGk="), "unsupported image mime type: text/plain");
        assert_eq!(url("data:image/png;base64,===="), "image payload is empty");
        let error = one(here, "", Some(PIXEL), Some("image/tiff")).unwrap_err();
        assert_eq!(error, "unsupported image mime type: image/tiff");
        let image = one(here, "", Some(PIXEL), Some("image/webp")).unwrap();
        assert_eq!((image.path.as_str(), image.byte_size), ("rpc-image-1794705259416.png", 70));
        assert_eq!((image.mime_type.as_str(), image.data_url.as_str()), ("image/webp", PIXEL));
    }

    #[test]
    fn files_are_found_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("pic one.png"), b"png").unwrap();
        std::fs::write(at("shot.JPG"), b"jpegdata").unwrap();
        std::fs::write(at("notes.txt"), b"x").unwrap();
        std::fs::create_dir(at("dir.png")).unwrap();
        std::fs::File::create(at("big.png")).unwrap().set_len(MAX_BYTES + 4).unwrap();
        let load = |path: &str| one(folder.path(), path, None, None);
        let shown = |name: &str| at(name).display().to_string();
        assert_eq!(load("'pic one.png'").unwrap().path, shown("pic one.png"));
        assert_eq!(load(&format!("file://{}", shown("pic%20one.png"))).unwrap().path, shown("pic one.png"));
        let shot = load("~/./shot.JPG").unwrap();
        assert_eq!((shot.path, shot.data_url.as_str()), (shown("shot.JPG"), "data:image/jpeg;base64,anBlZ2RhdGE="));
        assert_eq!(load("missing.png").unwrap_err(), format!("file not found: {}", shown("missing.png")));
        assert_eq!(load("dir.png").unwrap_err(), format!("not a file: {}", shown("dir.png")));
        std::fs::create_dir(at(".ssh")).unwrap();
        std::fs::write(at(".ssh/key.png"), b"png").unwrap();
        assert!(load(".ssh/key.png").unwrap_err().starts_with("may hold secrets"));
        assert_eq!(load("big.png").unwrap_err(), "image too large (8.00 mb). max is 8.00 mb");
        let kinds = "supported: .png, .jpg, .jpeg, .webp, .gif";
        assert_eq!(load("notes.txt").unwrap_err(), format!("unsupported image type: .txt. {kinds}"));
    }

    #[cfg(unix)]
    #[test]
    fn links_cannot_escape_the_readable_folders() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside.png"));
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(&outside, b"png").unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link.png")).unwrap();
        std::fs::write(inside.join("own.png"), b"png").unwrap();
        let roots = [inside.clone()];
        let mut settings = ToolSettings::new(folder.path().join("data"));
        settings.private = vec![inside.join("private.png")];
        std::fs::write(inside.join("private.png"), b"png").unwrap();
        std::fs::hard_link(inside.join("private.png"), inside.join("second.png")).unwrap();
        let secret_files = SecretFiles::new(&settings);
        let folders = ImageFolders { folder: &inside, home: None, roots: &roots, secret_files: &secret_files };
        let load = |path: &str| {
            let image = PendingImage { path: path.to_owned(), mime_type: None, data_url: None };
            load(&[image], folders, Moment(0)).map(|images| images.len())
        };
        assert_eq!(load("own.png"), Ok(1));
        for path in ["link.png", "../outside.png"] {
            assert!(load(path).unwrap_err().starts_with("outside of the folders"), "{path}");
        }
        for path in ["private.png", "second.png"] {
            assert!(load(path).unwrap_err().starts_with("may hold secrets"), "{path}");
        }
        let pipe = std::process::Command::new("mkfifo").arg(inside.join("pipe.png")).status().unwrap();
        assert!(pipe.success());
        assert!(load("pipe.png").unwrap_err().starts_with("not a file"), "nothing waits for a writer");
    }
}
