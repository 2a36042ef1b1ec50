#ifdef __CUDACC__
#undef inline
#undef complex
#endif
