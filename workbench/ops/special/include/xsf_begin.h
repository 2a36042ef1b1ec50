// What stands before headers of xsf, which CuPy ships: SciPy's special functions for
// the device. `xsf_end.h` stands behind them.
#ifdef __CUDACC__
#include <cupy/complex.cuh>
#include <cupy/xsf/config.h>

#include <complex>
#include <memory>
#endif

#include <cupy/xsf/cephes/cbrt.h>
#include <cupy/xsf/error.h>

#ifdef __CUDACC__
// Without this NVRTC copies each function into its callers, for minutes.
#define inline __noinline__ inline
// C++17 takes no arguments' types from `std::complex(x)` where it is an alias.
#define complex(x) complex<double>(x)
#endif

// Two are replaced by ours: J, which counts on complex numbers that start as 0, where
// the device's start as anything; and Y, which asks the heap for one number.
#define besj besj_of_zeros
#define besy besy_on_heap
#include <cupy/xsf/amos/amos.h>
#undef besj
#undef besy

namespace xsf {
namespace amos {

    // J of z is I of z / i, turned by the order: DLMF 10.27.6.
    inline int besj(
        std::complex<double> z, double order, int kode, int n, std::complex<double> *y,
        int *ierr
    ) {
        double x = std::real(z), height = std::imag(z), half = std::floor(0.5 * order);
        bool below = height < 0;
        std::complex<double> rotated(below ? -height : height, below ? x : -x);
        *ierr = 0;
        int zeros = besi(rotated, order, kode, 1, y, ierr);
        if (*ierr != 0 && *ierr != 3) {
            return 0;
        }
        double angle = (order - 2 * half) * 1.570796326794896619;
        double sign = half - 2 * std::floor(0.5 * half) == 0 ? 1 : -1;
        std::complex<double> turn(
            sign * std::cos(angle), (below ? -sign : sign) * std::sin(angle)
        );
        *y *= turn;
        return zeros;
    }

    // Y = (H1 - H2) / 2i, times exp(-|Im z|) where kode is 2.
    inline int besy(
        std::complex<double> z, double order, int kode, int n, std::complex<double> *y,
        int *ierr
    ) {
        std::complex<double> h1, h2;
        *ierr = 0;
        int zeros = besh(z, order, kode, 1, 1, &h1, ierr);
        if (*ierr != 0 && *ierr != 3) {
            return 0;
        }
        int zeros2 = besh(z, order, kode, 2, 1, &h2, ierr);
        if (*ierr != 0 && *ierr != 3) {
            return 0;
        }
        if (kode == 2) {
            double height = std::imag(z), away = height < 0 ? -height : height;
            std::complex<double> turn{std::cos(std::real(z)), std::sin(std::real(z))};
            h1 *= turn * std::exp(-height - away);
            h2 *= std::conj(turn) * std::exp(height - away);
        }
        std::complex<double> twice = h1 - h2;
        *y = std::complex<double>(0.5 * std::imag(twice), -0.5 * std::real(twice));
        return zeros < zeros2 ? zeros : zeros2;
    }

} // namespace amos
} // namespace xsf
