//go:build !linux

package embedded

import "errors"

func mountTmpfs(string, int) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }
