package move

import (
	"context"
	"errors"
	"io/fs"

	"github.com/flowfabric/flowfabric-go/internal/engineurl"
)

// missingDirectory reports whether a URL names a directory without an engine, which Run would create.
func missingDirectory(ctx context.Context, url string) (bool, error) {
	data, err := engineurl.OpenData(ctx, url, engineurl.ReadCopy)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, data.Close()
}
