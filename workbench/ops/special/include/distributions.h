// Distribution functions of Student and of the noncentral families, and inverses by any
// parameter. Noncentral ones are means over a Poisson distribution: Johnson, Kotz,
// Balakrishnan, Continuous Univariate Distributions, vol. 2 (1995), 29.5, 30.4, 31.5.
#pragma once

#include <bisection.h>
#include <cupy/xsf/cephes/igam.h>
#include <cupy/xsf/cephes/incbet.h>
#include <cupy/xsf/cephes/ndtr.h>
#include <cupy/xsf/cephes/ndtri.h>

namespace workbench {

const double SMALLEST = 1e-300, LARGEST = 1e100, MOST_NONCENTRAL = 1e4, MOST_DF = 1e10,
             LEAST_DF = 1e-10;

inline bool is_inside(double p) { return 0 < p && p < 1; }

inline double beta_part(double a, double b, double x) {
    return xsf::cephes::incbet(a, b, x);
}

// The mean of f(k), which falls with k, over Poisson's distribution of k.
template <typename F>
double mean_of_poisson(double rate, F f) {
    if (rate == 0) {
        return f(0.0);
    }
    double center = std::floor(rate);
    double weight = std::exp(center * std::log(rate) - rate - xsf::cephes::lgam(center + 1));
    double sum = weight * f(center), w = weight;
    for (double k = center; k > 0;) {
        w *= k / rate;
        k -= 1;
        double term = w * f(k);
        sum += term;
        if (w < 1e-18 * sum) {
            break;
        }
    }
    w = weight;
    for (double k = center + 1; k < center + 1e5; k += 1) {
        w *= rate / k;
        double term = w * f(k);
        sum += term;
        if (term < 1e-18 * sum || w < 1e-300) {
            break;
        }
    }
    return sum;
}

inline double betaincc(double a, double b, double x) {
    double y = beta_part(a, b, x);
    return y < 0.9 ? 1 - y : beta_part(b, a, 1 - x);
}

inline double betainccinv(double a, double b, double y) {
    if (!(a > 0 && b > 0 && 0 <= y && y <= 1)) {
        return NAN;
    }
    return y == 0 ? 1.0 : y == 1 ? 0.0 : bisect([=](double x) { return y - betaincc(a, b, x); }, 0.0, 1.0);
}

inline double btdtria(double p, double b, double x) {
    if (!(is_inside(p) && is_inside(x) && b > 0)) {
        return NAN;
    }
    return bisect([=](double a) { return beta_part(a, b, x) - p; }, 1e-100, LARGEST);
}

inline double btdtrib(double a, double p, double x) {
    if (!(is_inside(p) && is_inside(x) && a > 0)) {
        return NAN;
    }
    return bisect([=](double b) { return beta_part(a, b, x) - p; }, 1e-100, LARGEST);
}

// Binomial, negative binomial and Poisson, with counts that are no whole numbers.
inline double binomial_part(double k, double n, double p) {
    return k >= n ? 1.0 : beta_part(n - k, k + 1, 1 - p);
}

inline double bdtrik(double y, double n, double p) {
    if (!(is_inside(y) && is_inside(p) && n > 0)) {
        return NAN;
    }
    if (binomial_part(0, n, p) >= y) {
        return 0;
    }
    return bisect([=](double k) { return binomial_part(k, n, p) - y; }, 0.0, n);
}

inline double bdtrin(double k, double y, double p) {
    if (!(is_inside(y) && is_inside(p) && k >= 0)) {
        return NAN;
    }
    return bisect([=](double n) { return binomial_part(k, n, p) - y; }, k, LARGEST);
}

inline double nbdtrik(double y, double n, double p) {
    if (!(is_inside(y) && is_inside(p) && n > 0)) {
        return NAN;
    }
    if (beta_part(n, 1, p) >= y) {
        return 0;
    }
    return bisect([=](double k) { return beta_part(n, k + 1, p) - y; }, 0.0, LARGEST);
}

inline double nbdtrin(double k, double y, double p) {
    if (!(is_inside(y) && is_inside(p) && k >= 0)) {
        return NAN;
    }
    return bisect([=](double n) { return beta_part(n, k + 1, p) - y; }, SMALLEST, LARGEST);
}

inline double pdtrik(double p, double m) {
    if (!(is_inside(p) && m >= 0)) {
        return NAN;
    }
    if (xsf::cephes::igamc(1, m) >= p) {
        return 0;
    }
    return bisect([=](double k) { return xsf::cephes::igamc(k + 1, m) - p; }, 0.0, LARGEST);
}

inline double chdtriv(double p, double x) {
    if (!(is_inside(p) && x >= 0)) {
        return NAN;
    }
    return bisect([=](double v) { return xsf::cephes::igam(0.5 * v, 0.5 * x) - p; }, SMALLEST, LARGEST);
}

inline double f_part(double dfn, double dfd, double f) {
    double t = dfn * f;
    return t > dfd ? betaincc(0.5 * dfd, 0.5 * dfn, dfd / (dfd + t))
                   : beta_part(0.5 * dfn, 0.5 * dfd, t / (dfd + t));
}

inline double fdtridfd(double dfn, double p, double x) {
    if (!(is_inside(p) && dfn > 0 && x >= 0)) {
        return NAN;
    }
    return solve_near([=](double dfd) { return f_part(dfn, dfd, x) - p; }, 5.0, LEAST_DF, MOST_DF);
}

// Student's t: DLMF 8.17; both tails by the same integral.
inline double student_tail(double df, double t) {
    return 0.5 * beta_part(0.5 * df, 0.5, df / (df + t * t));
}

inline double student_center(double df, double t) {
    return 0.5 * beta_part(0.5, 0.5 * df, t * t / (df + t * t));
}

inline double stdtr(double df, double t) {
    if (df != df || t != t || df <= 0) {
        return NAN;
    }
    if (!std::isfinite(df)) {
        return xsf::cephes::ndtr(t);
    }
    if (!std::isfinite(t)) {
        return t > 0;
    }
    if (t * t < df) {
        double part = student_center(df, t);
        if (part < 0.25) {
            return t < 0 ? 0.5 - part : 0.5 + part;
        }
    }
    double tail = student_tail(df, t);
    return t < 0 ? tail : 1 - tail;
}

inline double stdtrit(double df, double p) {
    if (!(is_inside(p) && df > 0)) {
        return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    }
    if (!std::isfinite(df)) {
        return xsf::cephes::ndtri(p);
    }
    double part = std::abs(p - 0.5);
    if (part == 0) {
        return 0;
    }
    double t;
    if (part < 0.25) {
        t = bisect([=](double s) { return student_center(df, s) - part; }, SMALLEST, LARGEST);
    } else {
        double tail = p < 0.5 ? p : 1 - p;
        t = bisect([=](double s) { return student_tail(df, s) - tail; }, SMALLEST, LARGEST);
    }
    return p < 0.5 ? -t : t;
}

inline double stdtridf(double p, double t) {
    if (!is_inside(p) || t != t) {
        return NAN;
    }
    return bisect([=](double df) { return stdtr(df, t) - p; }, 1e-100, MOST_DF);
}

// Noncentral chi squared.
inline double chndtr(double x, double df, double nc) {
    if (x != x || !(df > 0) || !(nc >= 0)) {
        return NAN;
    }
    if (x <= 0) {
        return x < 0 ? NAN : 0.0;
    }
    return mean_of_poisson(0.5 * nc, [=](double k) { return xsf::cephes::igam(0.5 * df + k, 0.5 * x); });
}

inline double chndtrix(double p, double df, double nc) {
    if (!(is_inside(p) && df > 0 && nc >= 0)) {
        return p == 0 ? 0.0 : NAN;
    }
    return bisect([=](double x) { return chndtr(x, df, nc) - p; }, 0.0, 1e10);
}

inline double chndtridf(double x, double p, double nc) {
    if (!(is_inside(p) && x >= 0 && nc >= 0)) {
        return NAN;
    }
    return bisect([=](double df) { return chndtr(x, df, nc) - p; }, SMALLEST, MOST_DF);
}

inline double chndtrinc(double x, double df, double p) {
    if (!(is_inside(p) && x >= 0 && df > 0)) {
        return NAN;
    }
    return bisect([=](double nc) { return chndtr(x, df, nc) - p; }, 0.0, MOST_NONCENTRAL);
}

// Noncentral F.
inline double ncfdtr(double dfn, double dfd, double nc, double f) {
    if (!(dfn > 0 && dfd > 0 && nc >= 0 && f >= 0)) {
        return NAN;
    }
    if (f == 0) {
        return 0;
    }
    double t = dfn * f, y = t / (dfd + t), rest = dfd / (dfd + t);
    return mean_of_poisson(0.5 * nc, [=](double k) {
        return y < 0.5 ? beta_part(0.5 * dfn + k, 0.5 * dfd, y) : betaincc(0.5 * dfd, 0.5 * dfn + k, rest);
    });
}

inline double ncfdtri(double dfn, double dfd, double nc, double p) {
    if (!(is_inside(p) && dfn > 0 && dfd > 0 && nc >= 0)) {
        return p == 0 ? 0.0 : NAN;
    }
    return bisect([=](double f) { return ncfdtr(dfn, dfd, nc, f) - p; }, 0.0, LARGEST);
}

inline double ncfdtridfd(double dfn, double p, double nc, double f) {
    if (!is_inside(p)) {
        return NAN;
    }
    return solve_near([=](double dfd) { return ncfdtr(dfn, dfd, nc, f) - p; }, 5.0, LEAST_DF, MOST_DF);
}

inline double ncfdtridfn(double p, double dfd, double nc, double f) {
    if (!is_inside(p)) {
        return NAN;
    }
    return solve_near([=](double dfn) { return ncfdtr(dfn, dfd, nc, f) - p; }, 5.0, LEAST_DF, MOST_DF);
}

inline double ncfdtrinc(double dfn, double dfd, double p, double f) {
    if (!is_inside(p)) {
        return NAN;
    }
    return bisect([=](double nc) { return ncfdtr(dfn, dfd, nc, f) - p; }, 0.0, MOST_NONCENTRAL);
}

// Noncentral t, its upper tail for t >= 0: even and odd parts of a normal's square.
inline double noncentral_tail(double df, double nc, double t) {
    double rate = 0.5 * nc * nc, x = df / (df + t * t);
    double even = mean_of_poisson(rate, [=](double k) { return betaincc(k + 0.5, 0.5 * df, t * t / (df + t * t)); });
    if (nc == 0) {
        return 0.5 * even;
    }
    // Weights rate^(k + 1/2) / Gamma(k + 3/2), from the largest one both ways.
    double center = std::floor(rate);
    double weight = std::exp((center + 0.5) * std::log(rate) - rate - xsf::cephes::lgam(center + 1.5));
    double odd = weight * beta_part(0.5 * df, center + 1, x), w = weight;
    for (double k = center; k > 0; k -= 1) {
        w *= (k + 0.5) / rate;
        odd += w * beta_part(0.5 * df, k, x);
        if (w < 1e-18 * odd) {
            break;
        }
    }
    w = weight;
    for (double k = center + 1; k < center + 1e5; k += 1) {
        w *= rate / (k + 0.5);
        odd += w * beta_part(0.5 * df, k + 1, x);
        if (w < 1e-18 * odd || w < 1e-300) {
            break;
        }
    }
    double tail = 0.5 * (nc < 0 ? even - odd : even + odd);
    return tail < 0 ? 0.0 : tail > 1 ? 1.0 : tail;
}

inline double nctdtr(double df, double nc, double t) {
    if (!(df > 0) || nc != nc || t != t) {
        return NAN;
    }
    return t < 0 ? noncentral_tail(df, -nc, -t) : 1 - noncentral_tail(df, nc, t);
}

inline double nctdtrit(double df, double nc, double p) {
    if (!(is_inside(p) && df > 0) || nc != nc) {
        return NAN;
    }
    return bisect_signed([=](double t) { return nctdtr(df, nc, t) - p; }, LARGEST);
}

inline double nctdtridf(double p, double nc, double t) {
    if (!is_inside(p)) {
        return NAN;
    }
    return solve_near([=](double df) { return nctdtr(df, nc, t) - p; }, 5.0, LEAST_DF, MOST_DF);
}

inline double nctdtrinc(double df, double p, double t) {
    if (!(is_inside(p) && df > 0) || t != t) {
        return NAN;
    }
    return bisect_signed([=](double nc) { return nctdtr(df, nc, t) - p; }, 1e3);
}

} // namespace workbench
