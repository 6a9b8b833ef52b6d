package archive

import (
	"context"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// WriteWith is Write with a function that is called before each change of files and each purge.
func WriteWith(ctx context.Context, client *runtime.Client, c Config, step func(what string)) (Report, error) {
	c.step = step
	return Write(ctx, client, c)
}
