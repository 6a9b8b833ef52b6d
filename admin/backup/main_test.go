package backup_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/flowfabric/flowfabric-go/admin/backup"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
)

// Environment variables of a process that restores a backup and kills itself at a step.
const (
	fileVariable = "FLOWFABRIC_RESTORE_FILE"
	urlVariable  = "FLOWFABRIC_RESTORE_URL"
	stepVariable = "FLOWFABRIC_RESTORE_STEP"
)

func TestMain(m *testing.M) {
	if os.Getenv(fileVariable) != "" {
		if err := restoreAndDie(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	enginetest.Main(m)
}

// restoreAndDie restores a backup, and kills the process at the step with the number of the environment.
func restoreAndDie(ctx context.Context) error {
	var last, steps int
	if _, err := fmt.Sscan(os.Getenv(stepVariable), &last); err != nil {
		return err
	}
	_, err := backup.Restore(ctx, os.Getenv(fileVariable), os.Getenv(urlVariable), backup.Config{
		Progress: func(step string, _ int) {
			if step == "read" {
				return
			}
			if steps++; steps == last {
				self, _ := os.FindProcess(os.Getpid())
				_ = self.Kill()
				select {} // until the signal arrives
			}
		},
	})
	return err
}
