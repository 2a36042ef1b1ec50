// Orthogonal polynomials: of a whole degree by recurrence in the degree, DLMF 18.9.1,
// of any other as hypergeometric functions, DLMF 18.5(iii).
#pragma once

#include <cupy/xsf/binom.h>
#include <cupy/xsf/cephes/gamma.h>
#include <cupy/xsf/hyp2f1.h>
#include <cupy/xsf/specfun.h>

namespace workbench {

template <typename T>
T eval_jacobi(double n, double a, double b, T x) {
    return xsf::binom(n + a, n) * xsf::hyp2f1(-n, n + a + b + 1, a + 1, 0.5 * (1.0 - x));
}

// Its steps are added up, which loses least near x = 1.
template <typename T>
T eval_jacobi(long long n, double a, double b, T x) {
    if (n < 0) {
        return eval_jacobi(double(n), a, b, x);
    }
    if (n == 0) {
        return T(1);
    }
    if (n == 1) {
        return 0.5 * (2 * (a + 1) + (a + b + 2) * (x - 1.0));
    }
    T step = (a + b + 2) * (x - 1.0) / (2 * (a + 1)), p = step + 1.0;
    for (long long j = 1; j < n; ++j) {
        double k = double(j), t = 2 * k + a + b;
        step = (t * (t + 1) * (t + 2) * (x - 1.0) * p + 2 * k * (k + b) * (t + 2) * step) /
               (2 * (k + a + 1) * (k + a + b + 1) * t);
        p = step + p;
    }
    return xsf::binom(n + a, double(n)) * p;
}

template <typename N, typename T>
T eval_sh_jacobi(N n, double p, double q, T x) {
    return eval_jacobi(n, p - q, q - 1, 2.0 * x - 1.0) / xsf::binom(2.0 * n + p - 1, double(n));
}

template <typename T>
T eval_gegenbauer(double n, double a, T x) {
    double front = xsf::cephes::Gamma(n + 2 * a) / xsf::cephes::Gamma(1 + n) /
                   xsf::cephes::Gamma(2 * a);
    return front * xsf::hyp2f1(-n, n + 2 * a, a + 0.5, 0.5 * (1.0 - x));
}

template <typename T>
T eval_gegenbauer(long long n, double a, T x) {
    if (n < 0) {
        return T(0);
    }
    T last(0), p(1);
    for (long long j = 0; j < n; ++j) {
        double k = double(j);
        T next = (2 * (k + a) * x * p - (k + 2 * a - 1) * last) / (k + 1);
        last = p;
        p = next;
    }
    return p;
}

template <typename T>
T eval_chebyt(double n, T x) {
    return xsf::hyp2f1(-n, n, 0.5, 0.5 * (1.0 - x));
}

template <typename T>
T eval_chebyt(long long n, T x) {
    T last = x, p(1); // of the degrees -1 and 0
    for (long long j = n < 0 ? -n : n; j > 0; --j) {
        T next = 2.0 * x * p - last;
        last = p;
        p = next;
    }
    return p;
}

template <typename T>
T eval_chebyu(double n, T x) {
    return (n + 1) * xsf::hyp2f1(-n, n + 2, 1.5, 0.5 * (1.0 - x));
}

template <typename T>
T eval_chebyu(long long n, T x) {
    if (n < -1) {
        return -eval_chebyu(-n - 2, x);
    }
    T last = 0.0 * x, p(1);
    if (n == -1) {
        return last;
    }
    for (long long j = n; j > 0; --j) {
        T next = 2.0 * x * p - last;
        last = p;
        p = next;
    }
    return p;
}

template <typename N, typename T>
T eval_chebyc(N n, T x) {
    return 2.0 * eval_chebyt(n, 0.5 * x);
}

template <typename N, typename T>
T eval_chebys(N n, T x) {
    return eval_chebyu(n, 0.5 * x);
}

template <typename N, typename T>
T eval_sh_chebyt(N n, T x) {
    return eval_chebyt(n, 2.0 * x - 1.0);
}

template <typename N, typename T>
T eval_sh_chebyu(N n, T x) {
    return eval_chebyu(n, 2.0 * x - 1.0);
}

template <typename T>
T eval_legendre(double n, T x) {
    return xsf::hyp2f1(-n, n + 1, 1.0, 0.5 * (1.0 - x));
}

template <typename T>
T eval_legendre(long long n, T x) {
    T last(0), p(1);
    for (long long j = 0, end = n < 0 ? -n - 1 : n; j < end; ++j) {
        double k = double(j);
        T next = ((2 * k + 1) * x * p - k * last) / (k + 1);
        last = p;
        p = next;
    }
    return p;
}

template <typename N, typename T>
T eval_sh_legendre(N n, T x) {
    return eval_legendre(n, 2.0 * x - 1.0);
}

template <typename T>
T eval_genlaguerre(double n, double a, T x) {
    if (a <= -1) {
        return T(NAN);
    }
    return xsf::binom(n + a, n) * xsf::hyp1f1(-n, a + 1, x);
}

template <typename T>
T eval_genlaguerre(long long n, double a, T x) {
    if (a <= -1) {
        return T(NAN);
    }
    if (n < 0) {
        return T(0);
    }
    T last(0), p(1);
    for (long long j = 0; j < n; ++j) {
        double k = double(j);
        T next = ((2 * k + 1 + a - x) * p - (k + a) * last) / (k + 1);
        last = p;
        p = next;
    }
    return p;
}

template <typename N, typename T>
T eval_laguerre(N n, T x) {
    return eval_genlaguerre(n, 0.0, x);
}

inline double eval_hermitenorm(long long n, double x) {
    if (x != x || n < 0) {
        return NAN;
    }
    double last = 0, p = 1;
    for (long long j = 0; j < n; ++j) {
        double next = x * p - double(j) * last;
        last = p;
        p = next;
    }
    return p;
}

inline double eval_hermite(long long n, double x) {
    if (x != x || n < 0) {
        return NAN;
    }
    double last = 0, p = 1;
    for (long long j = 0; j < n; ++j) {
        double next = 2 * (x * p - double(j) * last);
        last = p;
        p = next;
    }
    return p;
}

} // namespace workbench
