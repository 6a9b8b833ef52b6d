package deploy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/admin/backup"
	"github.com/flowfabric/flowfabric-go/admin/move"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/profile"
)

func Backup(a *shell.App) *cobra.Command {
	return a.Group("backup", "Write the data of an engine to a file, and restore them", backupWrite(a),
		backupCheck(a), backupRestore(a))
}

// dataWhere is the engine that a command on its data is about, without opening it.
func dataWhere(r *shell.Request) (connect.Where, error) {
	where, err := r.Where()
	if err == nil {
		err = where.Check()
	}
	if err == nil && where.IsServer() {
		err = shell.Usage("%s: needs an engine, got the server %s", shell.NameOf(r.Cmd), where.URL)
	}
	return where, err
}

func backupWrite(a *shell.App) *cobra.Command {
	return a.Standalone(shell.Spec{
		Use: "write FILE", Short: "Write the data of an engine to a file",
		Long: "Writes all data of the prefix to a file, which replaces an existing one when it is complete. The " +
			"directory of an embedded engine may be in use: the file has its data of one moment. No program may use" +
			" a server during the backup; back up a server in use by its own snapshots.\n\nThe file has the inputs " +
			"and results of runs, and the secrets of waitpoints. Only its owner can read it.",
		Example: "  flowfabric backup write /var/backups/flows --url embedded:/var/lib/flows",
		Do: func(r *shell.Request) error {
			where, err := dataWhere(r)
			if err != nil {
				return err
			}
			report, err := backup.Write(r, where.URL, r.Args[0], backup.Config{
				Prefix: where.Prefix, Progress: progressOf(r),
			})
			return printBackup(r, report, err)
		},
	})
}

func backupCheck(a *shell.App) *cobra.Command {
	return a.Standalone(shell.Spec{
		Use: "check FILE", Short: "Read a backup and verify its checksum and counts; needs no engine",
		Do: func(r *shell.Request) error {
			report, err := backup.Check(r, r.Args[0])
			return printBackup(r, report, err)
		},
	})
}

func backupRestore(a *shell.App) *cobra.Command {
	c := a.Standalone(shell.Spec{
		Use: "restore FILE", Short: "Restore a backup into an empty engine",
		Long: "Checks the file, writes its keys into an engine that has none with the prefix, and compares " +
			"both. Until then, no program can open the engine. Repeat the command after an interruption.",
		Example: "  flowfabric backup restore /var/backups/flows --url valkey://localhost:6379 --yes",
		Do: func(r *shell.Request) error {
			where, err := dataWhere(r)
			if err != nil {
				return err
			}
			if err := r.Confirm("restore " + r.Args[0] + " into " + connect.ShownURL(where.URL)); err != nil {
				return err
			}
			report, err := backup.Restore(r, r.Args[0], where.URL, backup.Config{
				Prefix: where.Prefix, Progress: progressOf(r),
			})
			return printBackup(r, report, err)
		},
	})
	c.Flags().BoolVarP(&a.Flags.Yes, "yes", "y", false, "do not ask")
	return c
}

func printBackup(r *shell.Request, report backup.Report, err error) error {
	sayNotSeen(r, report.NotSeen)
	if err != nil {
		return err
	}
	return r.Out.Value(report, report.SHA256, fmt.Sprintf(
		"prefix: %s, keys: %d, runs with child runs: %d, of which open: %d, schedules: %d, protocol: %s, SHA-256: %s",
		report.Prefix, report.Keys, report.Runs, report.OpenRuns, report.Schedules, report.Protocol, report.SHA256))
}

func sayNotSeen(r *shell.Request, parts []string) {
	for _, part := range parts {
		fmt.Fprintf(r.Stderr, "flowfabric: not checked, for lack of rights: %s\n", part)
	}
}

// progressOf prints how far a command is, for people at a terminal.
func progressOf(r *shell.Request) func(step string, keys int) {
	if !r.Interactive() {
		return nil
	}
	const every = 10_000
	step, shown := "", 0
	return func(now string, keys int) {
		if now != step {
			step, shown = now, 0
		}
		if keys >= shown+every {
			shown = keys
			fmt.Fprintf(r.Stderr, "%s: %d keys\n", now, keys)
		}
	}
}

func Move(a *shell.App) *cobra.Command {
	var giveUp bool
	c := a.Standalone(shell.Spec{
		Use: "move FROM TO", Short: "Move the data of an engine to another one",
		Long: "Moves all data of the prefix from one engine to another: from a directory to a server, from a " +
			"server to another one or to a cluster, and back. Runs keep their ids, states and open waits. " +
			"Stop all programs before, and start them with the URL of the new engine afterwards: neither " +
			"engine can be opened during the move, and the old one names the new engine afterwards.\n\n" +
			"FROM and TO are URLs of engines or names of profiles. Repeat the command after an interruption.",
		Example: "  flowfabric move embedded:/var/lib/flows valkey://localhost:6379 --dry-run\n" +
			"  flowfabric move embedded:/var/lib/flows valkey://localhost:6379 --yes",
		Do: func(r *shell.Request) error {
			from, prefix, err := movable(r, r.Args[0])
			if err != nil {
				return err
			}
			to, _, err := movable(r, r.Args[1])
			if err != nil {
				return err
			}
			if r.Flags.Prefix != "" {
				prefix = r.Flags.Prefix
			}
			return moveData(r, from, to, move.Config{Prefix: prefix, Progress: progressOf(r)}, giveUp)
		},
	})
	c.Flags().BoolVar(&giveUp, "cancel", false, "cancel an incomplete move: the old engine can be used again")
	c.Flags().BoolVarP(&a.Flags.Yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&a.Flags.DryRun, "dry-run", false, "only count the keys to move")
	return c
}

// movable is the engine that an argument of move names, and the prefix that its profile has.
func movable(r *shell.Request, arg string) (url, prefix string, err error) {
	url = arg
	if !strings.Contains(arg, ":") {
		file, err := profile.Read(profile.Path(r.Env))
		if err != nil {
			return "", "", err
		}
		p, err := file.Named(arg)
		if err != nil {
			return "", "", err
		}
		url, prefix = p.URL, p.Prefix
	}
	if (connect.Where{URL: url}).IsServer() {
		return "", "", shell.Usage("move: needs engines, got the server %s", url)
	}
	return url, prefix, nil
}

func moveData(r *shell.Request, from, to string, config move.Config, giveUp bool) error {
	names := connect.ShownURL(from) + " to " + connect.ShownURL(to)
	switch {
	case giveUp && r.Flags.DryRun:
		return shell.Usage("move: --cancel and --dry-run exclude each other")
	case giveUp:
		if err := r.Confirm("give up the move from " + names + ", and remove the copied keys"); err != nil {
			return err
		}
		return move.Cancel(r, from, to, config)
	case r.Flags.DryRun:
		report, err := move.Plan(r, from, to, config)
		return printMove(r, "would move", report, err)
	}
	if err := r.Confirm("move all data with the prefix from " + names); err != nil {
		return err
	}
	report, err := move.Run(r, from, to, config)
	text := "moved"
	if report.Already {
		text = "had been moved before"
	}
	return printMove(r, text, report, err)
}

func printMove(r *shell.Request, what string, report move.Report, err error) error {
	sayNotSeen(r, report.NotSeen)
	if err != nil {
		return err
	}
	return r.Out.Value(report, strconv.Itoa(report.Keys), fmt.Sprintf(
		"%s: keys: %d (%d bytes), runs with child runs: %d, of which open: %d, schedules: %d, partitions: %d", what,
		report.Keys, report.Bytes, report.Runs, report.OpenRuns, report.Schedules, report.Partitions.Flow))
}
