//! Tests of stored prefixes. The keys and values of a token are the two bytes of its id.

use std::fs::{self, File};
use std::ops::Range;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::*;

const BYTES_PER_TOKEN: usize = 2;

fn data(tokens: &[u32]) -> Vec<u8> {
    tokens.iter().flat_map(|token| (*token as u16).to_le_bytes()).collect()
}

fn tokens_of(data: &[u8]) -> Vec<u32> {
    data.chunks(2).map(|bytes| u32::from(u16::from_le_bytes([bytes[0], bytes[1]]))).collect()
}

fn open(folder: &TempDir, model: u8) -> PrefixFolder {
    open_with(PrefixCache::in_folder(folder.path().join("prefixes")), model)
}

fn open_with(cache: PrefixCache, model: u8) -> PrefixFolder {
    PrefixFolder::new(cache, &[model; 32], BYTES_PER_TOKEN).unwrap()
}

fn store(folder: &PrefixFolder, tokens: &[u32]) {
    folder.store(tokens, |range: Range<usize>| Ok::<_, String>(data(&tokens[range])));
}

/// Loads the longest prefix of `prompt` into a cache that contains its first `length` tokens.
/// Returns the tokens in the cache.
fn load(folder: &PrefixFolder, prompt: &[u32], length: usize) -> Vec<u32> {
    let mut cache = prompt[..length].to_vec();
    let loaded = folder.load(prompt, length, |start, block: &[u8]| {
        assert!(start <= cache.len());
        cache.truncate(start);
        cache.extend(tokens_of(block));
        Ok::<_, String>(())
    });
    cache.truncate(loaded);
    cache
}

fn files(folder: &TempDir) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.path().join("prefixes")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn prompt(length: u32) -> Vec<u32> {
    (0..length).collect()
}

#[test]
fn stored_prefix_is_found_by_another_prompt() {
    let folder = tempfile::tempdir().unwrap();
    store(&open(&folder, 1), &prompt(300));
    // The other prompt has 290 tokens in common, which end within a block.
    let other: Vec<_> = (0..290).chain(1000..1100).collect();
    let opened = open(&folder, 1);
    assert_eq!(load(&opened, &other, 0), other[..290]);
    assert_eq!(load(&opened, &other, 100), other[..290]);
    // Few tokens are not worth a file access.
    assert_eq!(load(&opened, &other, 200), other[..200]);
    // The logits of the last token are needed, so the last token is evaluated.
    assert_eq!(load(&opened, &prompt(300), 0), prompt(299));
}

#[test]
fn prefix_of_another_model_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    store(&open(&folder, 1), &prompt(300));
    assert_eq!(load(&open(&folder, 2), &prompt(300), 0), prompt(0));
    assert_eq!(load(&open(&folder, 1), &prompt(300), 0), prompt(299));
}

#[test]
fn longest_prefix_wins() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(&folder, 1);
    let branch: Vec<_> = (0..300).chain(2000..2400).collect();
    store(&opened, &prompt(500));
    store(&opened, &branch);
    assert_eq!(files(&folder).len(), 2);
    let longer: Vec<_> = branch.iter().copied().chain(3000..3010).collect();
    assert_eq!(load(&opened, &longer, 0), branch);
    assert_eq!(load(&opened, &prompt(600), 0), prompt(500));
}

#[test]
fn known_or_short_prefix_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(&folder, 1);
    store(&opened, &prompt(255));
    assert!(files(&folder).is_empty());
    store(&opened, &prompt(400));
    store(&opened, &prompt(420));
    assert_eq!(load(&opened, &prompt(900), 0), prompt(400));
    // A much longer prefix replaces the file.
    store(&opened, &prompt(800));
    assert_eq!(files(&folder).len(), 1);
    assert_eq!(load(&opened, &prompt(900), 0), prompt(800));
}

#[test]
fn damaged_file_is_ignored_and_removed() {
    let damages: [fn(&mut Vec<u8>); 6] = [
        |bytes| bytes.truncate(10),
        |bytes| bytes.truncate(bytes.len() - 1),
        |bytes| bytes.push(0),
        |bytes| bytes[0] ^= 1,
        |bytes| bytes[70] ^= 1,
        |bytes| bytes.clear(),
    ];
    for damage in damages {
        let folder = tempfile::tempdir().unwrap();
        let opened = open(&folder, 1);
        store(&opened, &prompt(300));
        let file = files(&folder).pop().unwrap();
        let mut bytes = fs::read(&file).unwrap();
        damage(&mut bytes);
        fs::write(&file, bytes).unwrap();
        assert_eq!(load(&opened, &prompt(400), 0), prompt(0));
        assert!(!file.exists());
        store(&opened, &prompt(300));
        assert_eq!(load(&opened, &prompt(400), 0), prompt(300));
    }
}

/// The blocks before the damaged one are already loaded and correct.
#[test]
fn damaged_block_ends_the_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(&folder, 1);
    store(&opened, &prompt(300));
    let file = files(&folder).pop().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert_eq!(load(&opened, &prompt(400), 0), prompt(256));
    assert!(!file.exists());
}

#[test]
fn failed_import_keeps_the_earlier_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(&folder, 1);
    store(&opened, &prompt(300));
    let loaded = opened.load(&prompt(400), 0, |start, _| if start < 128 { Ok(()) } else { Err("full") });
    assert_eq!(loaded, 128);
}

#[test]
fn least_recently_used_files_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let one_file = open(&folder, 1).file_bytes(300);
    let cache = PrefixCache::in_folder(folder.path().join("prefixes")).max_bytes(3 * one_file);
    let opened = open_with(cache, 1);
    let branch = |number: u32| -> Vec<u32> { (number * 1000..number * 1000 + 300).collect() };
    for number in 0..3 {
        store(&opened, &branch(number));
        // The clock of the file system may be too coarse to order the files.
        for file in files(&folder) {
            let file = File::options().write(true).open(file).unwrap();
            let modified = file.metadata().unwrap().modified().unwrap();
            file.set_modified(modified - Duration::from_secs(10)).unwrap();
        }
    }
    let used = |number| [branch(number), vec![9]].concat();
    assert_eq!(load(&opened, &used(0), 0), branch(0));
    store(&opened, &branch(3));
    assert_eq!(files(&folder).len(), 3);
    assert_eq!(load(&opened, &used(1), 0), prompt(0));
    for number in [0, 2, 3] {
        assert_eq!(load(&opened, &used(number), 0), branch(number));
    }
    // A prefix that is larger than the cache is not written.
    store(&opened, &(10_000..12_000).collect::<Vec<_>>());
    assert_eq!(files(&folder).len(), 3);
}

#[test]
fn number_of_files_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(&folder, 1);
    for number in 0..MAX_ENTRIES as u32 + 3 {
        store(&opened, &(number * 1000..number * 1000 + 300).collect::<Vec<_>>());
    }
    assert_eq!(files(&folder).len(), MAX_ENTRIES);
}

#[test]
fn abandoned_partial_file_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(&folder, 1);
    store(&opened, &prompt(300));
    let abandoned = folder.path().join("prefixes/old.partial");
    let file = File::create(&abandoned).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(7200)).unwrap();
    let recent = folder.path().join("prefixes/new.partial");
    File::create(&recent).unwrap();
    store(&opened, &(5000..5300).collect::<Vec<_>>());
    assert!(!abandoned.exists() && recent.exists());
}

#[test]
fn failed_export_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    open(&folder, 1).store(&prompt(300), |_| Err::<Vec<u8>, _>("no memory"));
    assert!(files(&folder).is_empty());
}

/// A file in place of the folder has the same effect as a read-only disk, also for the root user.
#[test]
fn unwritable_folder_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("prefixes"), "").unwrap();
    let opened = open(&folder, 1);
    store(&opened, &prompt(300));
    assert_eq!(load(&opened, &prompt(400), 0), prompt(0));
}

#[cfg(unix)]
#[test]
fn only_the_user_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    store(&open(&folder, 1), &prompt(300));
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path().join("prefixes")), 0o700);
    assert_eq!(mode(&files(&folder)[0]), 0o600);
}

#[test]
fn size_0_disables_the_folder() {
    assert!(PrefixFolder::new(PrefixCache::in_folder("prefixes").max_bytes(0), &[0; 32], 2).is_none());
}

fn save(memory: &mut MemoryBlocks, tokens: &[u32], start: usize) -> usize {
    let mut exported = 0;
    let export = |range: Range<usize>| {
        exported += range.len();
        Ok::<_, String>(data(&tokens[range]))
    };
    memory.save(tokens, start, export).unwrap();
    exported
}

/// Extends the first `length` tokens of `prompt` from `memory`. Returns all tokens of the result.
fn take(memory: &mut MemoryBlocks, prompt: &[u32], length: usize) -> Vec<u32> {
    let taken = memory.take(prompt, length);
    let mut cache = prompt[..length].to_vec();
    if !taken.blocks.is_empty() {
        cache.truncate(taken.start);
        cache.extend(tokens_of(&taken.blocks.concat()));
    }
    cache.truncate(taken.length);
    cache
}

#[test]
fn conversation_is_restored_from_memory() {
    let mut memory = MemoryBlocks::new(10_000);
    save(&mut memory, &prompt(200), 0);
    let next: Vec<_> = (0..200).chain(500..510).collect();
    assert_eq!(take(&mut memory, &next, 0), prompt(200));
    // All blocks were moved to the key-value cache.
    assert_eq!(take(&mut memory, &next, 0), prompt(0));
}

#[test]
fn shared_blocks_are_kept_once() {
    let mut memory = MemoryBlocks::new(10_000);
    let branch: Vec<_> = (0..128).chain(700..900).collect();
    assert_eq!(save(&mut memory, &prompt(200), 0), 200);
    assert_eq!(save(&mut memory, &branch, 0), 200);
    assert_eq!(take(&mut memory, &[branch.clone(), vec![1]].concat(), 0), branch);
}

/// The prompt has only a part of the last block. The block stays in memory for its conversation.
#[test]
fn part_of_a_block_is_used() {
    let mut memory = MemoryBlocks::new(10_000);
    save(&mut memory, &prompt(200), 0);
    let other: Vec<_> = (0..150).chain(500..600).collect();
    assert_eq!(take(&mut memory, &other, 130), prompt(150));
    assert_eq!(take(&mut memory, &prompt(300), 128), prompt(200));
}

#[test]
fn last_prompt_token_is_not_restored() {
    let mut memory = MemoryBlocks::new(10_000);
    save(&mut memory, &prompt(128), 0);
    assert_eq!(take(&mut memory, &prompt(128), 0), prompt(127));
}

#[test]
fn memory_is_bounded() {
    let mut memory = MemoryBlocks::new(3 * BLOCK_TOKENS * BYTES_PER_TOKEN);
    let other: Vec<_> = (1000..1200).collect();
    save(&mut memory, &prompt(100), 0);
    // The end of the new conversation is removed after the older conversation.
    save(&mut memory, &other, 0);
    assert_eq!(take(&mut memory, &prompt(300), 0), prompt(0));
    assert_eq!(take(&mut memory, &[other.clone(), vec![1]].concat(), 0), other[..192]);

    let mut none = MemoryBlocks::new(0);
    assert_eq!(save(&mut none, &prompt(100), 0), 0);
}
