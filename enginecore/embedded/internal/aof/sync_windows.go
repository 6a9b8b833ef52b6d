package aof

// dirSyncUnsupported: a directory cannot be synced there, and renames are ordered by the file system's journal.
const dirSyncUnsupported = true
