package script

import (
	"math"
	"unsafe"

	lua "github.com/yuin/gopher-lua"
)

// numberPool turns numbers into Lua values. The conversion by the language allocates each number by itself, which is
// most of the cost of a library function that returns many; here a block of them shares an allocation. A block is freed
// once none of its numbers is in use.
type numberPool struct{ free []lua.LNumber }

// numberBlock is the number of numbers in a block.
const numberBlock = 64

// interfaceWords is how the language represents an interface.
type interfaceWords struct{ typ, data unsafe.Pointer }

// smallNumbers are the values of the first natural numbers.
var smallNumbers = func() (values [256]lua.LValue) {
	for i := range values {
		values[i] = lua.LNumber(i)
	}
	return values
}()

// value returns v as a Lua value.
func (p *numberPool) value(v float64) lua.LValue {
	if v >= 0 && v < float64(len(smallNumbers)) {
		if i := int(v); float64(i) == v && !math.Signbit(v) {
			return smallNumbers[i]
		}
	}
	if len(p.free) == 0 {
		p.free = make([]lua.LNumber, numberBlock)
	}
	p.free[0] = lua.LNumber(v)
	out := smallNumbers[0]
	(*interfaceWords)(unsafe.Pointer(&out)).data = unsafe.Pointer(&p.free[0])
	p.free = p.free[1:]
	return out
}
