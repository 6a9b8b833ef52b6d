// Package archive keeps runs that are over in files, so that the engine can purge them.
//
// Write adds the runs that are over to the archive of a directory, unless it has them; Open reads it, without an
// engine:
//
//	report, err := archive.Write(ctx, client, archive.Config{Dir: "runs", PurgeAfter: 7 * 24 * time.Hour})
//	kept, err := archive.Open("runs")
//	run, err := kept.Run("orders", "order-17")
//
// An archive is of the runs of one namespace. It has segments, which are never changed: a file runs-000001.jsonl.gz
// with lines of JSON, compressed run by run, and a file runs-000001.index.jsonl with one line for each run, which has
// its position. The file manifest.json lists the segments. Every file is written under another name, synced and
// renamed, the manifest last, so that an archive has all files that the manifest lists, also after Write was killed.
// The next Write lists the segment that a killed one has left, or removes it if it is not whole; it removes no other
// segment.
//
// The archive stores of a run: its description with the inputs and results of its nodes (the lines of runcheck.Export),
// its definition, its events as far as the engine has them, and the lines that its activities logged. Frames that
// activities emitted are not stored. The files have the values of the runs: keep them accordingly.
//
// Import it to keep runs longer than the engine does.
package archive
