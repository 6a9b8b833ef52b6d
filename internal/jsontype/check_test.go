package jsontype_test

import (
	"encoding/json"
	"math/big"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/jsontype"
)

type (
	private   struct{ a, b int }
	unwritten struct {
		A int `json:"-"`
	}
	tree struct {
		Name  string
		Twigs []*tree
	}
	embedded  struct{ Name string }
	inPointer struct{ *embedded }
	inValue   struct{ embedded }
	partly    struct {
		Name string
		note string
	}
	locked struct {
		mu   sync.Mutex
		Name string
	}
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, good := range []any{
		0, "", 1.5, true, []byte{}, [3]int{}, map[string]int{}, map[int]string{}, map[time.Time]string{}, struct{}{}, &struct{}{},
		time.Time{}, big.Int{}, json.RawMessage{}, json.Number(""), tree{}, unwritten{}, inValue{}, sync.Mutex{},
		struct{ A any }{}, []any{}, struct {
			A chan int `json:"-"`
			B int
		}{},
	} {
		require.NoError(t, jsontype.Check(reflect.TypeOf(good)), "%T", good)
	}
	require.NoError(t, jsontype.Check(reflect.TypeFor[any]()))
	require.NoError(t, jsontype.Check(reflect.TypeFor[partly]()))
	require.NoError(t, jsontype.Check(reflect.TypeFor[locked]()))
	for want, bad := range map[string]reflect.Type{
		"type chan int has no JSON form":   reflect.TypeFor[chan int](),
		"type func() has no JSON form":     reflect.TypeFor[*[]func()](),
		"type complex128 has no JSON form": reflect.TypeFor[map[string]complex128](),
		"type map[float64]int has no JSON form: its keys must be strings, integers, or texts":                      reflect.TypeFor[map[float64]int](),
		"type error is an interface with methods, which JSON cannot decode into":                                   reflect.TypeFor[error](),
		"type struct { E error }: field E: type error is an interface with methods, which JSON cannot decode into": reflect.TypeFor[struct{ E error }](),
		"type struct { A struct { B []chan int } }: field A: type struct { B []chan int }: field B: type chan int has no JSON form": reflect.TypeFor[struct {
			A struct{ B []chan int }
		}](),
		"type jsontype_test.private has no JSON field, all of it would be lost: export its fields": reflect.TypeFor[private](),
		"type struct { P jsontype_test.private }: field P: type jsontype_test.private has no JSON field, all of it would be lost: export its fields": reflect.TypeFor[struct {
			P private
		}](),
		"type atomic.Int64 has no JSON field, all of it would be lost: export its fields":                                     reflect.TypeFor[[]atomic.Int64](),
		"type jsontype_test.inPointer: field Name: JSON cannot be read into a pointer to an unexported type that is embedded": reflect.TypeFor[inPointer](),
	} {
		require.EqualError(t, jsontype.Check(bad), want)
	}
	_, _ = private{}.a, private{}.b
	_ = partly{}.note
	_ = &locked{mu: sync.Mutex{}}
	_, _ = inPointer{}, inValue{}
}
