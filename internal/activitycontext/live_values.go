package activitycontext

import "context"

// LiveValues publishes live values of the execution.
type LiveValues interface {
	// Publish stores an encoded value under a key, in place of the former one.
	Publish(ctx context.Context, key string, data []byte) error
}

// LiveValuesFrom returns the publisher of live values of the execution that ctx belongs to; nil outside a worker.
func LiveValuesFrom(ctx context.Context) LiveValues {
	values, _ := ctx.Value(key{}).(LiveValues)
	return values
}
